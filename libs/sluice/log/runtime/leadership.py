"""Leadership: which of several replicas may decide."""

from collections.abc import Callable
from typing import Protocol


class Leadership(Protocol):
    """Who may decide. A wrong answer wastes work but corrupts nothing: the chain fences."""

    @property
    def held(self) -> bool: ...

    def start(self, changed: Callable[[], None]) -> None:
        """Begin to look after it; *changed* is called when `held` changes."""
        ...

    def candidate(self, ready: bool) -> None:
        """Say whether this replica's state is warm enough to lead."""
        ...

    async def confirm(self) -> bool:
        """Find out whether this replica still leads; False also when nobody can say."""
        ...

    async def release(self) -> None:
        """Give it up, so that another need not wait."""
        ...


class Alone:
    """The leadership of the only replica."""

    held = True

    def start(self, changed: Callable[[], None]) -> None:
        pass

    def candidate(self, ready: bool) -> None:
        pass

    async def confirm(self) -> bool:
        return True

    async def release(self) -> None:
        pass
