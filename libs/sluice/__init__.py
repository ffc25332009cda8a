"""Sluice: job admission on an event log."""

__version__ = "0.1.0"
"""The version's one home: the distribution's, the command's, and what services say of themselves."""
