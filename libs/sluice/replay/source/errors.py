"""Names that nothing in a log has."""


class UnknownWorkloadError(KeyError):
    """There is no such workload or job; `known` are the names there are."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(name)
        self.name, self.known = name, known


class UnknownNameError(UnknownWorkloadError):
    """Nothing in the cell has that name; `known` are the names there are."""
