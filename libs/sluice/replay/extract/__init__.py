"""Logs cut down, made fit to share, decided anew (DB3)."""
