"""Logs cut down, made fit to share, decided anew (DB3)."""

__all__ = ["dependency_closure", "extract", "redact"]
