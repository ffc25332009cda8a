"""The running cell as a log to look into; apart, as it needs all of the client, and a file nothing of it."""

import asyncio

import structlog

from sluice.cli.kit.errors import CliError
from sluice.cli.kit.settings import Settings
from sluice.replay.source.live import LiveSource
from sluice.retention.live import log_source

from .client import find_target
from .log_reader import open_log


def live_source(settings: Settings) -> LiveSource:
    """Open the log of the cell that is meant.

    Raises:
        CliError: there is none, or its log is empty.
    """
    target = find_target(settings)

    async def check() -> None:
        async with open_log(target):
            pass

    asyncio.run(check())
    # Warnings of snapshots that are newer than what is looked at would be in the way: that is no fault here.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    source = log_source(target.url, target.cell)
    if not source.end:
        raise CliError(f"the log of cell {target.cell} is empty")
    return source
