"""What must hold of any log (DB6)."""
