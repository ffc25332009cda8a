"""What an agent refuses."""


class PlanError(ValueError):
    """The manifest asks for what an agent cannot do; the text is for the job's owner."""
