"""Refusals of an agent."""


class PlanError(ValueError):
    """The manifest asks for what an agent cannot do; the text is for the job's owner."""


class ImageError(PlanError):
    """It wants container images run; other executors may."""
