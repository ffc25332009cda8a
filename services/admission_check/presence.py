"""Presence of check controllers, as the admission-check service knows it (AC8)."""

from collections.abc import Iterable

from sluice.core.checks.state import State
from sluice.events.job import OnLoss


class Controllers:
    """What the log says of controllers."""

    def present(self, state: State, name: str) -> bool:
        found = state.controllers.get(name)
        return found is not None and found.present

    def expected(self, state: State) -> Iterable[str]:
        return [name for name, found in state.controllers.items() if found.present]

    def away(self, state: State, name: str) -> bool:  # noqa: ARG002
        return False

    def on_loss(self, state: State, name: str) -> OnLoss | None:  # noqa: ARG002
        """Nothing: checks have their own time (`controllerGraceSeconds`)."""
        return None
