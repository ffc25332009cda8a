"""The running cell as a log to look into; apart, as it needs all of the client, and a file nothing of it."""

import asyncio
import contextlib
from typing import Any

import structlog

from sluice.cli.kit.errors import CliError
from sluice.cli.kit.settings import Settings
from sluice.log.decider import Decider
from sluice.log.errors import EventLogError
from sluice.log.fold import Fold
from sluice.log.nats.objects import ObjectBucket
from sluice.log.runtime.snapshot import Snapshots
from sluice.replay.source.live import LiveSource
from sluice.retention.live import base_finder

from .client import Target, find_target
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
    source = LiveSource(
        target.url,
        target.cell,
        lambda decider, upto: _snapshot(target, decider, upto),
        base_finder(target.url, target.cell),
    )
    if not source.end:
        raise CliError(f"the log of cell {target.cell} is empty")
    return source


def _snapshot(target: Target, decider: Decider[Any], upto: int) -> Fold[Any] | None:
    async def find() -> Fold[Any] | None:
        async with open_log(target) as log:
            # Newer ones do not help to look into the past.
            return await Snapshots(ObjectBucket(log)).newest(decider, upto)

    # It warns of each snapshot that is newer than *upto*, which is no fault here.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with contextlib.suppress(EventLogError):
        return asyncio.run(find())
    return None
