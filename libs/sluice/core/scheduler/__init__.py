"""The decider that writes quota: its state, its fold, its snapshots."""

__all__ = ["decider", "invariants", "state"]
