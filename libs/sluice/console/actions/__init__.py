"""What people may do in the console beside looking: each action shows its command and its effect first."""

__all__ = ["actor"]
