"""A cell on this machine: its directory, its server, its processes."""

__all__ = [
    "cell_directory",
    "certificates",
    "private_files",
    "process_start",
    "processes",
    "server",
    "store_watch",
]
