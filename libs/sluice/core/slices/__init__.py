"""The decider that makes workloads of jobs, and tells each job what to do: the slice-aggregator's."""

__all__ = [
    "completions",
    "decider",
    "dispatch",
    "intake",
    "job_request",
    "limits",
    "records",
    "resize",
    "responses",
    "state",
    "submission",
]
