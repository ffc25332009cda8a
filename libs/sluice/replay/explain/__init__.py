"""Why a workload waits, and what would help (DB2)."""

__all__ = ["activity", "racing_sandbox", "resize", "sandbox", "text", "why"]
