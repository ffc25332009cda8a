"""What a cell held at one moment, and what changed between two, as plain data."""

__all__ = ["describe", "diff", "overview", "pending_preemptions", "queues", "quota", "text"]
