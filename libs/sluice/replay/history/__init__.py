"""What happened, in order, and what caused it (DB1)."""

__all__ = ["causes", "event_text", "lanes", "stepper", "trace"]
