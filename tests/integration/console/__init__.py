"""The console of a running cell."""
