"""A log that lasts: archives of what is old, bases to begin from, and the cut behind them."""

__all__ = ["archive", "cycle", "live", "policy", "restoring", "stores"]
