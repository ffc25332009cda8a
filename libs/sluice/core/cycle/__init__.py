"""One scheduling cycle over one tree of cohorts (Kueue: pkg/scheduler)."""
