"""Faults that nobody handled: an event loop only logs them, and goes on without what was to be done.

A callback that raises takes no snapshot over, or leaves a reader deaf, and all that is asked of the cell may
still be answered. So tests fail for it, whatever else they ask: `tests/conftest.py` within the own process,
`System` in the services that it started.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIGNS = (
    "ERROR asyncio ",
    "Exception in callback",
    "Task exception was never retrieved",
    "Exception ignored in",
)
"""How a service, asyncio, uvloop and the interpreter begin what they log of such a fault."""

LINES = 12
"""Of the traceback below a sign, told in the failure."""


class Unhandled(AssertionError):
    """A fault was logged, and not handled."""


def found(log: Path) -> list[str]:
    """Return the faults in what a process has said, each with the lines below."""
    if not log.exists():
        return []
    lines = log.read_text(errors="replace").splitlines()
    return [
        "\n".join([f"--- {log.name}", *lines[place : place + LINES]])
        for place, line in enumerate(lines)
        if line.startswith(SIGNS)
    ]


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@contextmanager
def none_in_loop() -> Iterator[None]:
    """Fail for what event loops of this process log meanwhile.

    Raises:
        Unhandled: something was.
    """
    kept = _Kept()
    logger = logging.getLogger("asyncio")
    logger.addHandler(kept)
    try:
        yield
    finally:
        logger.removeHandler(kept)
    if kept.texts:
        raise Unhandled("\n".join(kept.texts))
