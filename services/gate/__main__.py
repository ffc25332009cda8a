"""`python -m sluice.services.gate`."""

import asyncio
import os
import signal
import sys

import uvloop

from sluice import telemetry
from sluice.log.runtime.config import CellConfig, load_cell, refuse
from sluice.rights.roles import RolesError

from .config import Config, load
from .service import Gate


async def _serve(cell: CellConfig, config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, stop.set)
    await Gate(cell, config).run(stop)


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        cell = load_cell(os.environ)
        config = load(os.environ)
        observer = telemetry.start("gate", cell.instance, os.environ)
    except ValueError as error:
        refuse("gate", error)
    try:
        uvloop.run(_serve(cell, config))
    except (RolesError, OSError) as error:
        sys.exit(f"gate: cannot go on: {error}")
    finally:
        observer.close()


if __name__ == "__main__":
    main()
