"""A cell on this machine: its directory, its server, its processes."""

__all__ = ["cell_directory", "process_start", "processes", "server"]
