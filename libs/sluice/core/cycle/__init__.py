"""One scheduling cycle over one tree of cohorts (Kueue: pkg/scheduler)."""

__all__ = [
    "cycle",
    "entry",
    "events",
    "nomination",
    "pending_preemptions",
    "requeue_filter",
    "withheld_quota",
]
