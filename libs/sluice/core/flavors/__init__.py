"""Which flavor each resource gets, and what stands in the way (Kueue: pkg/scheduler/flavorassigner)."""
