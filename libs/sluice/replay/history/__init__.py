"""History: events in order, and their causes (DB1)."""

__all__ = ["causes", "event_text", "lanes", "stepper", "trace"]
