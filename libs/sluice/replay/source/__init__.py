"""Where a log is read from, and the state at any point of it."""
