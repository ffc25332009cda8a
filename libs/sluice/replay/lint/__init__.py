"""Invariants of any log (DB6)."""

__all__ = ["lint", "preemption_loops"]
