"""Rights in a cell: roles, the server's configuration of them, what the gate lets pass."""

__all__ = ["gate_policy", "names", "parties", "roles"]
