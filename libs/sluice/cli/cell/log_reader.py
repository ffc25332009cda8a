"""A cell's log, opened for reading by a command."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sluice.cli.kit.errors import CliError
from sluice.log.errors import NoStreamError
from sluice.log.nats import jetstream_api
from sluice.log.nats.jetstream import JetStreamLog
from sluice.protocol.subjects import Cell

from .client import Target, connect


@asynccontextmanager
async def open_log(target: Target) -> AsyncIterator[JetStreamLog]:
    """Open a cell's log for reading.

    Raises:
        CliError: no server there, or it has no such cell.
    """
    async with connect(target) as api:
        try:
            await jetstream_api.info(api.connection, Cell(target.cell).stream)
        except NoStreamError:
            raise CliError(
                f"the server at {target.shown} has no cell {target.cell!r}",
                hint="Cells are made by their services; see `sluice up`.",
                exit_code=4,
            ) from None
    source = JetStreamLog(target.url, target.cell, name="sluice-cli")
    await source.open(5.0)
    try:
        yield source
    finally:
        await source.close()
