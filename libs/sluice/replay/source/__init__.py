"""Sources of logs, and the state at any point of one."""

__all__ = [
    "durations",
    "errors",
    "json_lines",
    "live",
    "log_file",
    "moments",
    "partial_decode",
    "source",
    "suggest",
    "time_travel",
]
