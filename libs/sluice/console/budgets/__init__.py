"""Budgets: what was consumed, by whom and when, as far as the log tells it."""
