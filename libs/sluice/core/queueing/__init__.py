"""What waits for quota: one queue per cluster queue, of classes of equals (Kueue: pkg/cache/queue)."""
