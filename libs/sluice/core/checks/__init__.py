"""The decider that asks for admission checks and hears their verdicts: admission-check's."""

__all__ = ["decider", "requests", "state", "timeouts"]
