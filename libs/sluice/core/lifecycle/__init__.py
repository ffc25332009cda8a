"""Life-cycle of workloads that hold quota (Kueue: the workload controller)."""

__all__ = ["due", "fold", "transitions"]
