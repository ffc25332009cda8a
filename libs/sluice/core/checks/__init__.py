"""The decider that asks for admission checks and hears their verdicts: admission-check's."""

__all__ = ["decider", "pod_set_updates", "requests", "state", "timeouts"]
