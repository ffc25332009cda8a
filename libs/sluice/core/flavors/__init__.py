"""Which flavor each resource gets, and what stands in the way (Kueue: pkg/scheduler/flavorassigner)."""

__all__ = ["assigner", "assignment", "eligibility", "memo", "plan", "podset_reducer"]
