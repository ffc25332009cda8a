"""Commands about who may log in."""
