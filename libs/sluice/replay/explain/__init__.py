"""Why a workload waits, and what would help (DB2)."""

__all__ = [
    "activity",
    "executors",
    "others",
    "racing_sandbox",
    "resize",
    "submission",
    "why",
    "why_text",
]
