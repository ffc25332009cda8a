"""Which controllers of checks are there, as the admission-check service knows it (AC8)."""

from collections.abc import Iterable

from sluice.core.checks.state import State
from sluice.log.runtime.presence import PresenceWatcher
from sluice.protocol.checks import CONTROLLER

from .config import Config


class Controllers:
    def present(self, state: State, name: str) -> bool:
        found = state.controllers.get(name)
        return found is not None and found.present

    def expected(self, state: State) -> Iterable[str]:
        return [name for name, found in state.controllers.items() if found.present]


def watcher(config: Config) -> PresenceWatcher[State]:
    """Return what records in the log that controllers have come or gone."""
    return PresenceWatcher(
        CONTROLLER, "admission-check", Controllers(), poll_s=config.poll_s, lost_after_s=config.lost_after_s
    )
