"""Facts and words about one workload, without the world around it."""
