"""Where a log is read from, and the state at any point of it."""

__all__ = ["errors", "json_lines", "live", "log_file", "partial_decode", "source", "time_travel"]
