"""The decider that lets variants of a job race: the variant-controller's."""

__all__ = ["activity", "decide", "decider", "gates", "state"]
