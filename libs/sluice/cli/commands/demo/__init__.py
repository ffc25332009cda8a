"""The demo, which `make run` starts."""
