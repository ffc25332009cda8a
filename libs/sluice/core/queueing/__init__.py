"""Pending workloads: one queue per cluster queue, of equivalence classes (Kueue: pkg/cache/queue)."""

__all__ = ["manager", "overcommit", "pending_queue", "request_index", "sorted_map"]
