"""What becomes of workloads that hold quota, and when (Kueue: the workload controller)."""

__all__ = ["due", "fold", "transitions"]
