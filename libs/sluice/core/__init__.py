"""The deciders and their arithmetic: pure, without clock, randomness, input or output."""

__all__ = [
    "budgets",
    "checks",
    "config",
    "cycle",
    "flavors",
    "lifecycle",
    "preemption",
    "queueing",
    "quota",
    "scheduler",
    "slices",
    "timing",
    "variants",
    "views",
    "workload",
    "world",
]
