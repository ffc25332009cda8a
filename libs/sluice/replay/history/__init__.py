"""What happened, in order, and what caused it (DB1)."""

__all__ = ["causes", "stepper", "trace"]
