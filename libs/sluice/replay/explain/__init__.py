"""Explanations: why a workload waits, and what would help (DB2)."""

__all__ = ["executors", "forecast", "others", "submission", "why", "why_text"]
