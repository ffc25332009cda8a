"""Actions of people in the console: each shows its command and its effect first."""

__all__ = ["actor"]
