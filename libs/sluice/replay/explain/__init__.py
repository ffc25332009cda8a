"""Why a workload waits, and what would help (DB2)."""

__all__ = [
    "activity",
    "checks",
    "executors",
    "others",
    "racing_sandbox",
    "report",
    "resize",
    "sandbox",
    "why",
]
