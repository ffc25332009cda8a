"""`python -m sluice.services.archivist`."""

import asyncio
import os
import signal

import uvloop

from sluice import telemetry
from sluice.log.runtime.config import CellConfig, load_cell, refuse

from .config import Config, load
from .service import Archivist

NICE = 10
"""Added to the process's niceness: it folds much, and nobody waits for it."""


async def _serve(cell: CellConfig, config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, stop.set)
    await Archivist(cell, config).run(stop)


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        cell = load_cell(os.environ)
        config = load(os.environ)
        observer = telemetry.start("archivist", cell.instance, os.environ)
    except ValueError as error:
        refuse("archivist", error)
    os.nice(NICE)
    try:
        uvloop.run(_serve(cell, config))
    finally:
        observer.close()


if __name__ == "__main__":
    main()
