"""The deciders and their arithmetic: pure, without clock, randomness, input or output."""

__all__ = [
    "budgets",
    "checks",
    "config",
    "cycle",
    "deadlines",
    "flavors",
    "lifecycle",
    "naming",
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
