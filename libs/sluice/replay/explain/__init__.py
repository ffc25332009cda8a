"""Why a workload waits, and what would help (DB2)."""

__all__ = ["activity", "checks", "racing_sandbox", "report", "resize", "sandbox", "stopping", "why"]
