"""Commands about a cell: up, down, status."""
