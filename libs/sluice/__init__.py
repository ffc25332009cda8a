"""Sluice: job admission on an event log."""

__version__ = "0.1.0"
