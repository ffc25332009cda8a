"""Why a workload waits, and what would help (DB2)."""
