"""The cohort tree: nominal quota, borrowing, lending, usage, shares. It knows no workloads (SC3, SC6)."""

__all__ = ["fair_share", "manifests", "node", "tree"]
