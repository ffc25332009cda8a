"""What waits for quota: one queue per cluster queue, of classes of equals (Kueue: pkg/cache/queue)."""

__all__ = ["manager", "overcommit", "pending_queue", "request_index", "sorted_map"]
