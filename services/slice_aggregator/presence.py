"""Which agents are there, as the slice-aggregator knows it."""

from collections.abc import Iterable

from sluice.core.slices.state import State
from sluice.log.runtime.presence import PresenceWatcher

from .config import Config

KIND = "agent"


class Agents:
    def present(self, state: State, name: str) -> bool:
        return bool(state.executors.get(name))

    def expected(self, state: State) -> Iterable[str]:
        # Also agents lost already that still hold jobs: a claim of theirs came after the loss.
        return [name for name, present in state.executors.items() if present or name in state.claimed]


def watcher(config: Config) -> PresenceWatcher[State]:
    """Return what records in the log that agents have come or gone."""
    return PresenceWatcher(
        KIND, "slice-aggregator", Agents(), poll_s=config.poll_s, lost_after_s=config.lost_after_s
    )
