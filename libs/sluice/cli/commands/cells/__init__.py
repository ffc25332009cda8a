"""Commands about other cells, in which this one places jobs."""
