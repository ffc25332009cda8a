"""Which agents are there, as the slice-aggregator knows it."""

from collections.abc import Iterable

from sluice.core.slices.state import State

AGENT = "agent"


class Agents:
    """What the log says of agents."""

    def present(self, state: State, name: str) -> bool:
        return bool(state.executors.get(name))

    def expected(self, state: State) -> Iterable[str]:
        # Also agents lost already that still hold jobs: a claim of theirs came after the loss.
        return [name for name, present in state.executors.items() if present or name in state.claimed]
