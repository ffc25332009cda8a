"""Questions to a log, live or exported: verify, lint, why, what if, history, extracts."""

__all__ = ["explain", "extract", "history", "lint", "simulate", "source", "traces", "verify", "views"]
