"""Taking lent quota back is better than preempting by priority (SC4, SC5)."""

from .flavorassigner_testhierarchical import run

SUITE = "flavorassigner.TestReclaimBeforePriorityPreemption"

__all__ = ["SUITE", "run"]
