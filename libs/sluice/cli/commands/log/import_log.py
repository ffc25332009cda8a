"""Puts an exported log into an empty cell, in batches of which the last message alone is acknowledged."""

from collections.abc import Callable, Mapping

from sluice.cli.kit.errors import CliError
from sluice.log.nats.connection import Connection
from sluice.log.nats.jetstream import JetStreamLog, read_ack
from sluice.log.nats.protocol import publish_frame
from sluice.replay.source.source import GAP, TIME_HEADER, FileSource

BATCH = 256
BATCH_BYTES = 1 << 20
TIMEOUT_S = 60.0


async def import_log(source: FileSource, url: str, cell: str, show: Callable[[int], None]) -> None:
    """Store every message at its own sequence, with something in the place of those that are missing.

    Raises:
        CliError: the cell has a log already, or somebody else writes to it.
    """
    target = JetStreamLog(url, cell, name="sluice-import")
    await target.open(5.0)
    try:
        if end := await target.end():
            raise CliError(
                f"cell {cell} is not empty: its log ends at {end}", hint="Import into a fresh cell."
            )
        batch = _Batch(await target.connection(), target.cell.prefix)
        for entries in source.read():
            for entry in entries:
                while batch.seq < entry.seq - 1:
                    await batch.add(GAP, b"{}", {})
                await batch.add(entry.suffix, entry.payload, {TIME_HEADER.decode(): str(entry.at)})
            show(batch.seq)
        await batch.send()
        if (end := await target.end()) != source.end:
            raise _disturbed(end, source.end)
    finally:
        await target.close()


class _Batch:
    """Messages on their way. `seq`: that of the last one added."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self.seq = 0
        self._connection, self._prefix = connection, prefix
        self._waiting: list[tuple[str, bytes, Mapping[str, str]]] = []
        self._size = 0

    async def add(self, suffix: str, payload: bytes, headers: Mapping[str, str]) -> None:
        self.seq += 1
        self._waiting.append((self._prefix + suffix, payload, headers))
        self._size += len(payload)
        if len(self._waiting) >= BATCH or self._size >= BATCH_BYTES:
            await self.send()

    async def send(self) -> None:
        """Send what waits; its last message's sequence tells whether all of it was stored."""
        if not self._waiting:
            return
        *others, last = self._waiting
        reply, future = self._connection.expect(last[0])
        frames = [publish_frame(subject, payload, "", headers) for subject, payload, headers in others]
        frames.append(publish_frame(last[0], last[1], reply, last[2]))
        self._connection.write(b"".join(frames))
        self._waiting.clear()
        self._size = 0
        frame = await self._connection.answer(reply, future, TIMEOUT_S)
        stored = read_ack(last[0], None, frame.payload).seq
        if stored != self.seq:
            raise _disturbed(stored, self.seq)


def _disturbed(found: int, wanted: int) -> CliError:
    return CliError(f"the cell's log ends at {found}, not {wanted}: somebody else writes to it")
