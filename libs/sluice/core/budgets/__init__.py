"""What consumption costs, and who may still start."""
