"""A cell's log, opened for reading by a command."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sluice.cli.kit.errors import CliError
from sluice.log.nats.jetstream import JetStreamLog

from .client import Target, connect


@asynccontextmanager
async def open_log(target: Target) -> AsyncIterator[JetStreamLog]:
    """Open a cell's log for reading.

    Raises:
        CliError: no server there, or it has no such cell.
    """
    async with connect(target) as api:
        answer = await api.connection.request(f"$JS.API.STREAM.INFO.SLUICE_{target.cell}", b"", timeout=5)
        if b'"error"' in answer.data:
            raise CliError(
                f"the server at {target.shown} has no cell {target.cell!r}",
                hint="Cells are made by their services; see `sluice up`.",
                exit_code=4,
            )
    source = JetStreamLog(target.url, target.cell, name="sluice-cli")
    await source.open(5.0)
    try:
        yield source
    finally:
        await source.close()


__all__ = ["open_log"]
