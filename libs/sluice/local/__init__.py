"""A cell on this machine: its directory, its server, its processes."""
