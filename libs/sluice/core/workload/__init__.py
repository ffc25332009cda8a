"""Facts and words about one workload, without the world around it."""

__all__ = [
    "additions",
    "admission_checks",
    "admission_constraints",
    "charges",
    "deactivation",
    "equivalence",
    "inputs",
    "limit_ranges",
    "pending_reasons",
    "pod_resources",
    "reasons",
    "variant_events",
]
