"""Puts an exported log into an empty cell, in batches of which the last message alone is acknowledged."""

from collections.abc import Callable

from sluice.cli.kit.errors import CliError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.replay.source.source import FileSource
from sluice.retention.restoring import Batch, DisturbedError


async def import_log(source: FileSource, url: str, cell: str, show: Callable[[int], None]) -> None:
    """Store every message at its own sequence, with something in the place of those that are missing.

    Raises:
        CliError: the cell has a log already.
        DisturbedError: somebody else writes to it.
    """
    target = JetStreamLog(url, cell, name="sluice-import")
    await target.open(5.0)
    try:
        if end := await target.end():
            raise CliError(
                f"cell {cell} is not empty: its log ends at {end}", hint="Import into a fresh cell."
            )
        batch = Batch(await target.connection(), target.cell.prefix)
        for entries in source.read():
            for entry in entries:
                await batch.add(entry.seq, entry.suffix, entry.at, entry.payload)
            show(batch.seq)
        await batch.send()
        if (end := await target.end()) != source.end:
            raise DisturbedError(end, source.end)
    finally:
        await target.close()
