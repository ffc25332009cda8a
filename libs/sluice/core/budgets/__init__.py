"""Budgets: the cost of consumption, and who may still start."""

__all__ = ["budgets", "consumption"]
