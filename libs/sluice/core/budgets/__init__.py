"""What consumption costs, and who may still start."""

__all__ = ["budgets", "consumption"]
