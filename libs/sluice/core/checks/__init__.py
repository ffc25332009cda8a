"""The decider that asks for admission checks and hears their verdicts: admission-check's."""

__all__ = ["decider", "intake", "pod_set_updates", "requests", "state", "timeouts"]
