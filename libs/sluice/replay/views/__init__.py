"""What a cell held at one moment, and what changed between two, as plain data."""
