"""Commands about the event log."""
