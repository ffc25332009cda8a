"""What `sluice demo` says while its cell starts."""

from collections.abc import Sequence

from sluice.cli.commands.cell.health import Health, Part
from sluice.cli.commands.demo.demo import _starting
from sluice.protocol.query import Object


class _Heard:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, text: str) -> None:
        self.lines.append(text)

    def happened(self, text: str) -> None:
        """Not while the cell starts."""

    def update(self, jobs: Sequence[Object], queues: Sequence[Object], planned: int) -> None:
        """Not while the cell starts."""

    def close(self) -> None:
        """Nothing is to be done."""


def _health(ready: Sequence[str]) -> Health:
    return Health(tuple(Part(name, name in ready, "") for name in ("server", "api", "scheduler")))


def test_each_part_that_gets_ready_brings_a_line_and_nothing_else_does() -> None:
    view = _Heard()
    heard = _starting(view)
    for ready in ((), (), ("server",), ("server", "api"), ("server", "api"), ("server", "api", "scheduler")):
        heard(_health(ready))
    assert view.lines == [
        "0 of 3 are ready, waiting for server, api and scheduler",
        "1 of 3 are ready, waiting for api and scheduler",
        "2 of 3 are ready, waiting for scheduler",
    ]
