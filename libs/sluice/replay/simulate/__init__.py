"""A log's inputs played again in virtual time, under other rules (DB5)."""

__all__ = ["changes", "cluster_traces", "decider_host", "executors", "job_waits", "report", "what_if"]
