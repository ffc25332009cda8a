"""Presence of agents, as the slice-aggregator knows it."""

from collections.abc import Iterable

from sluice.core.slices.state import State
from sluice.events.job import OnLoss

AGENT = "agent"


class Agents:
    """What the log says of agents."""

    def present(self, state: State, name: str) -> bool:
        return bool(state.executors.get(name))

    def expected(self, state: State) -> Iterable[str]:
        # Whoever holds a job is expected, whatever is known of it: never seen, or lost before it claimed.
        there = (name for name, present in state.executors.items() if present and name not in state.claimed)
        # Of who was away the log says whether it is back or lost, though it may have no job by now.
        return dict.fromkeys([*there, *state.claimed, *state.away])

    def away(self, state: State, name: str) -> bool:
        return name in state.away

    def on_loss(self, state: State, name: str) -> OnLoss | None:
        """Return the most patient of what was said with its claims: earlier processes had other settings."""
        wishes = state.claimed.get(name, {}).values()
        if any(wish is not None and wish.policy == "Wait" for wish in wishes):
            return OnLoss(policy="Wait")
        return max((wish for wish in wishes if wish is not None), key=lambda wish: wish.after_s, default=None)
