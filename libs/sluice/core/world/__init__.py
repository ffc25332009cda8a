"""What holds quota now: workloads, cluster queues, reservations (Kueue: pkg/cache/scheduler)."""
