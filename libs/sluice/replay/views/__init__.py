"""Views of a cell at one moment, and of the changes between two, as plain data."""

__all__ = ["cells", "describe", "diff", "overview", "pending_preemptions", "queues", "quota", "text"]
