"""Events of the log: by writer, commits, and how both are read and written (docs/events.md)."""

__all__ = [
    "base",
    "catalogue",
    "checks",
    "codec",
    "commit",
    "config",
    "dispatch",
    "envelope",
    "ids",
    "job",
    "scheduler",
    "slices",
    "upcast",
    "variants",
]
