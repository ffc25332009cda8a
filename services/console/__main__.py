"""`python -m sluice.services.console`: the console of a cell, or, with `--log`, of an exported log."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from sluice import __version__
from sluice.console.cell import RecordedCell
from sluice.console.live import LiveCell
from sluice.console.redaction import Covered
from sluice.console.server import Server, application
from sluice.log.errors import EventLogError
from sluice.log.nats.responder import Responder
from sluice.log.runtime.config import refuse
from sluice.protocol.subjects import Cell
from sluice.replay.source.source import FileSource, LogFileError, Source
from sluice.retention.archive import Archive, cell_of
from sluice.retention.stores import is_archive, store_at

from .config import Config, access_of, actor_of, cover_of, load


def _say(address: str, file: str) -> None:
    print(f"Console: {address}", flush=True)
    if file:
        partial = Path(f"{file}.new")
        partial.write_text(address)
        partial.replace(file)


async def _serve(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, stop.set)
    if config.log:
        await _serve_file(config, stop)
    else:
        await _serve_cell(config, stop)


async def _serve_file(config: Config, stop: asyncio.Event) -> None:
    source, cover = _recorded(config.log), cover_of(config)
    cell = RecordedCell(source if cover is None else Covered(source, cover))
    try:
        async with Server(application(cell, access_of(config)), config.host, config.port) as server:
            _say(server.address, config.address_file)
            await stop.wait()
    finally:
        await cell.close()


def _recorded(place: str) -> Source:
    """Return the log in a file, or in an archive."""
    if not is_archive(place):
        return FileSource(Path(place))
    store = store_at(place)
    return Archive(store, cell_of(store)).source()


async def _serve_cell(config: Config, stop: asyncio.Event) -> None:
    """Serve until *stop*, or until the log cannot be followed any more."""
    cell = LiveCell(config.nats_url, config.cell, cover_of(config))
    responder = Responder(config.nats_url, f"console-{config.instance}")
    following = asyncio.create_task(cell.run())
    offering = asyncio.create_task(_offer(responder, cell, config))
    stopping = asyncio.create_task(stop.wait())
    try:
        app = application(cell, access_of(config), actor=actor_of(config, os.environ))
        async with Server(app, config.host, config.port) as server:
            _say(server.address, config.address_file)
            await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
    finally:
        for task in (following, offering, stopping):
            task.cancel()
        with suppress(EventLogError, OSError):
            await responder.close()
        await cell.close()


def _told(health: Callable[[], dict[str, Any]]) -> Callable[[bytes], Awaitable[bytes]]:
    async def answer(_: bytes) -> bytes:
        return msgspec.json.encode(health())

    return answer


async def _offer(responder: Responder, cell: LiveCell, config: Config) -> None:
    """Answer `sluice status`, where this user may."""

    def health() -> dict[str, Any]:
        return {
            "service": "console",
            "instance": config.instance,
            "pid": os.getpid(),
            "role": "serving",
            "upto": cell.source.end,
            "lag": cell.lag,
        }

    what = f"Console of the Sluice cell {config.cell}"
    with suppress(EventLogError, OSError):
        await responder.open_in_the_end()
        metadata = {"cell": config.cell, "instance": config.instance}
        await responder.offer("sluice-console", __version__, what, metadata, health)
        # What a replica says of itself goes with an endpoint of its own.
        await responder.endpoint("health", Cell(config.cell).subject("control.console.health"), _told(health))


def _arguments(config: Config, arguments: list[str]) -> Config:
    """Return the configuration with `--log FILE|DIR`, `--port N` and `--host ADDRESS` of the command line."""
    known = {"--log": "log", "--port": "port", "--host": "host"}
    given = dict(zip(arguments[::2], arguments[1::2], strict=False))
    if len(arguments) % 2 or not given.keys() <= known.keys():
        raise ValueError("want --log FILE, --port N, --host ADDRESS")
    values = {known[name]: value for name, value in given.items()}
    return msgspec.convert(msgspec.to_builtins(config) | values, Config, strict=False)


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        config = _arguments(load(os.environ), sys.argv[1:])
        access_of(config)
    except ValueError as error:
        refuse("console", error)
    os.nice(config.nice)
    try:
        uvloop.run(_serve(config))
    except (EventLogError, LogFileError, OSError) as error:
        sys.exit(f"console: cannot go on: {error}")


if __name__ == "__main__":
    main()
