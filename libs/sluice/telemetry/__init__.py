"""Logs, metrics and traces of Sluice's processes."""

from .logs import configure_logs
from .start import Telemetry, start

__all__ = ["Telemetry", "configure_logs", "exporting", "http", "start"]
