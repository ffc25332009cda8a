"""Presentation of the view, as `status` of manifests and in Kubernetes' words."""

__all__ = ["job", "phase", "preemptions", "slices", "times", "unadmitted", "workload"]
