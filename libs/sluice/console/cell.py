"""Cell that the console looks into: an exported log, or a running one. One interface for both."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from sluice.readmodel.world import World
from sluice.replay.source import moments
from sluice.replay.source.source import FileSource, Source

from .log_view import Density
from .past import Past

Replica = dict[str, Any]


class Looked(Protocol):
    """A cell to look into."""

    kind: str
    """cell or file."""
    name: str
    cell: str
    source: Source
    """Its log, up to where it is known to have come."""
    live: bool
    """It may go on."""
    density: Density

    @property
    def lag(self) -> int:
        """Return how many messages the log has that were not folded yet."""
        ...

    async def ask[T](self, seq: int, question: Callable[[World], T]) -> T:
        """Return what *question* makes of the world at *seq*; of the end if it is 0."""
        ...

    async def read[T](self, work: Callable[[], T]) -> T:
        """Return what *work*, which reads the log, returns; beside the event loop."""
        ...

    async def wait(self, seq: int, timeout_s: float) -> bool:
        """Wait until the world has come further than *seq*; tell whether it has."""
        ...

    async def replicas(self) -> list[Replica]:
        """Return what the replicas of the services say of themselves."""
        ...

    async def log_bytes(self) -> int: ...


class Hands:
    """Threads that fold and read, so that the event loop does not wait for them."""

    def __init__(self) -> None:
        # One folds, as worlds are shared; others read.
        self.folding = ThreadPoolExecutor(1, "fold")
        self.reading = ThreadPoolExecutor(3, "read")

    async def fold[T](self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.folding, work)

    async def read[T](self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.reading, work)

    def close(self) -> None:
        for pool in (self.folding, self.reading):
            pool.shutdown(wait=False, cancel_futures=True)


class RecordedCell:
    """A log that has ended, such as an exported one: it needs no server, and nothing in it changes."""

    kind, live = "file", False

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name, self.cell = Path(source.name).name, source.header.cell
        self._past, self._hands = Past(self.source), Hands()
        self.density = Density(self.source)

    @property
    def lag(self) -> int:
        return 0

    async def ask[T](self, seq: int, question: Callable[[World], T]) -> T:
        return await self._hands.fold(lambda: self._past.ask(seq or self.source.end, question))

    async def read[T](self, work: Callable[[], T]) -> T:
        return await self._hands.read(work)

    async def wait(self, seq: int, timeout_s: float) -> bool:  # noqa: ARG002
        await asyncio.sleep(timeout_s)
        return False

    async def replicas(self) -> list[Replica]:
        return []

    async def log_bytes(self) -> int:
        return self.source.path.stat().st_size if isinstance(self.source, FileSource) else 0

    async def close(self) -> None:
        self._hands.close()


async def sequence(cell: Looked, at: str) -> int:
    """Return the sequence that `?at=` means; 0 for the end of a cell that goes on.

    Raises:
        RangeError, MomentError: it means none.
    """
    if not at or at == "now":
        return 0 if cell.live else cell.source.end
    return await cell.read(lambda: moments.sequence_of(cell.source, at))
