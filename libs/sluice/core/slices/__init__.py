"""The decider that makes workloads of jobs, and tells each job what to do: the slice-aggregator's."""
