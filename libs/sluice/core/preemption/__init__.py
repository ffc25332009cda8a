"""Preemption: the targets that have to go so that a workload fits (Kueue: pkg/scheduler/preemption)."""

__all__ = ["targets"]
