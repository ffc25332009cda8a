"""The deciders and their arithmetic: pure, without clock, randomness, input or output."""

__all__ = [
    "budgets",
    "checks",
    "config",
    "cycle",
    "deadlines",
    "deciders",
    "flavors",
    "lifecycle",
    "naming",
    "preemption",
    "queueing",
    "quota",
    "scheduler",
    "settle",
    "slices",
    "timing",
    "variants",
    "views",
    "workload",
    "world",
]
