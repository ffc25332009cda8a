"""Protocol of the bus beside the log: subjects, dispatch, requests of checks, questions to the api."""

__all__ = ["cells", "checks", "dispatch", "executor_kinds", "heartbeats", "query", "subjects", "tracing"]
