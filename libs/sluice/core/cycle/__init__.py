"""One scheduling cycle over one tree of cohorts (Kueue: pkg/scheduler)."""

__all__ = [
    "admission",
    "cycle",
    "entry",
    "events",
    "kept_quota",
    "nomination",
    "pending_preemptions",
    "requeue_filter",
]
