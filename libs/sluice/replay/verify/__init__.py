"""Deciding a log again (DB4)."""
