"""Which controllers of checks are there, as the admission-check service knows it (AC8)."""

from collections.abc import Iterable

from sluice.core.checks.state import State


class Controllers:
    """What the log says of controllers."""

    def present(self, state: State, name: str) -> bool:
        found = state.controllers.get(name)
        return found is not None and found.present

    def expected(self, state: State) -> Iterable[str]:
        return [name for name, found in state.controllers.items() if found.present]
