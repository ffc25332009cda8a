"""Commands about admission checks."""
