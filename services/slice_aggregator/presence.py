"""Which agents are there, as the slice-aggregator knows it."""

from collections.abc import Iterable

from sluice.core.slices.state import State

AGENT = "agent"


class Agents:
    """What the log says of agents."""

    def present(self, state: State, name: str) -> bool:
        return bool(state.executors.get(name))

    def expected(self, state: State) -> Iterable[str]:
        # Whoever holds a job is expected, whatever is known of it: never seen, or lost before it claimed.
        there = (name for name, present in state.executors.items() if present and name not in state.claimed)
        return [*there, *state.claimed]
