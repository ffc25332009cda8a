"""Readers of what others have written, given anything: `make fuzz-readers`."""
