"""Holders of quota now: workloads, cluster queues, reservations (Kueue: pkg/cache/scheduler)."""

__all__ = [
    "activity",
    "charging",
    "inadmissible",
    "model",
    "pending_preemptions",
    "preemption_history",
    "preemption_rules",
    "preemption_turns",
    "queue_order",
    "reservations",
    "variant_policy",
    "variants",
    "victim_index",
    "workload",
    "workload_slices",
]
