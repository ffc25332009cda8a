"""Flavor assignment: a flavor per resource, or what is in the way (Kueue: pkg/scheduler/flavorassigner)."""

__all__ = ["assigner", "assignment", "eligibility", "memo", "plan", "podset_reducer"]
