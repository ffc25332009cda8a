"""What happened, in order, and what caused it (DB1)."""
