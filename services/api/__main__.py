"""`python -m services.api`."""

import asyncio
import os
import signal
import sys

import msgspec

from .config import load
from .service import ApiService


async def _serve() -> None:
    config = load(os.environ, os.getpid())
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, stop.set)
    await ApiService(config).run(stop)


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        asyncio.run(_serve())
    except msgspec.ValidationError as error:
        sys.exit(f"configuration: {error}")


if __name__ == "__main__":
    main()
