"""The decider that places jobs of a manager cell in worker cells: the dispatcher's (decision 0044)."""

__all__ = ["decider", "orders", "places", "state"]
