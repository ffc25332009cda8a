"""`python -m sluice.services.api`."""

import asyncio
import os
import signal
import sys

import uvloop

from sluice import telemetry
from sluice.core.views.totals import TOTALS, series
from sluice.log.errors import EventLogError
from sluice.log.runtime import gc_tuning
from sluice.log.runtime.config import refuse

from .config import Config, load
from .service import ApiService


async def _serve(config: Config, observer: telemetry.Telemetry) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, stop.set)
    service = ApiService(config)
    observer.count(
        lambda: series(service.follower.world.view.totals),
        [(name, total.unit, total.text) for name, total in TOTALS.items()],
    )
    await service.run(stop)


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        config = load(os.environ, os.getpid())
        observer = telemetry.start("api", config.instance, os.environ)
    except ValueError as error:
        refuse("api", error)
    gc_tuning.tune()
    # Questions can wait, jobs cannot: when the machine is full, the deciders go first.
    os.nice(config.nice)
    try:
        uvloop.run(_serve(config, observer))
    except EventLogError as error:
        sys.exit(f"api: cannot go on: {error}")
    finally:
        observer.close()


if __name__ == "__main__":
    main()
