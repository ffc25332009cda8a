"""A log that lasts: archives of what is old, bases to begin from, and the cut behind them."""

__all__ = [
    "archive",
    "base_making",
    "cycle",
    "errors",
    "live",
    "object_lease",
    "object_store",
    "policy",
    "restoring",
    "stores",
]
