"""Commands that ask the log: why, trace, simulate, replay."""
