"""Why a workload waits, and what would help (DB2)."""

__all__ = ["activity", "checks", "executors", "racing_sandbox", "report", "resize", "sandbox", "why"]
