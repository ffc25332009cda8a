"""Changes as they happen: server-sent events whose id is the log's sequence, so clients resume exactly.

A frame says all that changed after the last one, up to where the world has come: last write per object wins.
Nothing is kept for a client; what it missed follows from the sequence that it names.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextlib import suppress
from typing import NamedTuple

import msgspec
from aiohttp import web

from sluice.events.base import Micros
from sluice.events.codec import rfc3339
from sluice.readmodel.world import World

from . import answers, log_view, rows
from .asked import Asked
from .handlers import Handlers
from .quota import QuotaTree

EVERY_S = 0.25
"""Between two frames of a client, at least."""
IDLE_S = 1.0
"""While the log grows, a client hears of it as often, also when nothing that it watches has changed."""
HEARTBEAT_S = 15.0
BEHIND = 10_000
"""Messages that a client may be behind; then it loads anew."""
LOG_EVENTS = 500
OBJECTS = 2_000
"""Of one kind in a frame: of more, it is cheaper to load anew."""


class TooMuchError(Exception):
    """More has changed than a frame says."""


class _Made(NamedTuple):
    """A frame as it was sent, for all who want the same."""

    upto: int
    body: bytes
    quiet: bool
    """Nothing that its readers watch has changed."""
    at: float


class Frames:
    """Frames that were made a moment ago.

    Clients are woken together, so those that watch the same ask for the same frame: it is made once.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, _Made] = {}

    def get(self, key: Hashable) -> _Made | None:
        made = self._made.get(key)
        return made if made is not None and time.monotonic() - made.at < EVERY_S / 2 else None

    def put(self, key: Hashable, frame: answers.Delta) -> _Made:
        now = time.monotonic()
        self._made = {k: made for k, made in self._made.items() if now - made.at < EVERY_S}
        quiet = not (frame.changed or frame.gone or frame.log)
        made = self._made[key] = _Made(frame.upto, msgspec.json.encode(frame), quiet, now)
        return made


class Stream:
    """One client's frames."""

    def __init__(self, handlers: Handlers, asked: Asked, frames: Frames) -> None:
        self._cell, self._handlers, self._frames = handlers.cell, handlers, frames
        self._kinds = asked.words("kinds")
        self._log = asked.text("log") == "1"
        self._namespace = asked.text("namespace")
        last = asked.request.headers.get("Last-Event-ID", "") or asked.text("since")
        self.since = int(last) if last.isdigit() and len(last) < 19 else 0
        self._beat = time.monotonic()
        self._said = time.monotonic()

    async def run(self, response: web.StreamResponse, now: int, at: Micros) -> None:
        """Send frames until the client has gone; the world is at the sequence *now*, of the time *at*."""
        resuming = self.since
        await response.write(f"retry: {1_000 + random.randrange(1_500)}\n\n".encode())
        if not resuming or resuming > now:
            # A sequence that the log does not have is of another log.
            self.since = now
            if resuming > now:
                await self._resync(response, now)
        hello = {
            "upto": self.since,
            "time": rfc3339(at) if at else "",
            "live": self._cell.live,
            "cell": self._cell.cell,
        }
        await self._write(response, "hello", self.since, hello)
        while True:
            if self._cell.live:
                await self._turn(response)
            came = await self._cell.wait(self.since, HEARTBEAT_S / 3)
            if time.monotonic() - self._beat >= HEARTBEAT_S:
                await response.write(b": alive\n\n")
                self._beat = time.monotonic()
            if came:
                # Until the next tick of a clock that all clients have.
                await asyncio.sleep(EVERY_S - asyncio.get_running_loop().time() % EVERY_S)

    async def _turn(self, response: web.StreamResponse) -> None:
        upto = await self._cell.ask(0, lambda world: world.seq)
        if upto <= self.since:
            return
        try:
            if upto - self.since > BEHIND:
                raise TooMuchError
            made = await self._frame()
        except TooMuchError:
            self.since = upto
            await self._resync(response, upto)
            return
        if made.quiet and time.monotonic() - self._said < IDLE_S:
            return
        self.since = made.upto
        await self._send(response, "delta", made.upto, made.body)

    async def _resync(self, response: web.StreamResponse, upto: int) -> None:
        await self._write(response, "resync", upto, {"upto": upto})

    async def _write(self, response: web.StreamResponse, event: str, seq: int, data: object) -> None:
        await self._send(response, event, seq, msgspec.json.encode(data))

    async def _send(self, response: web.StreamResponse, event: str, seq: int, body: bytes) -> None:
        await response.write(b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, event.encode(), body))
        self._said = self._beat = time.monotonic()

    async def _frame(self) -> _Made:
        key = (self.since, self._kinds, self._namespace, self._log)
        made = self._frames.get(key)
        if made is not None:
            return made
        frame = await self._cell.ask(0, lambda world: self._delta(world))
        if self._log:
            source, since = self._handlers.shown, self.since
            events, more = await self._cell.read(
                lambda: log_view.page(source, since + 1, frame.upto, newest_first=False, limit=LOG_EVENTS)
            )
            frame = msgspec.structs.replace(frame, log=events, log_cut=bool(more))
        return self._frames.put(key, frame)

    def _delta(self, world: World) -> answers.Delta:
        since, changes = self.since, world.changes
        if since < changes.forgotten:
            raise TooMuchError
        changed: dict[str, list[answers.Object]] = {}
        gone: dict[str, list[str]] = {}
        for kind in changes.changed:
            if self._kinds and kind not in self._kinds:
                continue
            keys = [key for key in changes.since(kind, since) if self._meant(key)]
            if len(keys) > OBJECTS:
                raise TooMuchError
            if keys:
                changed[kind] = list(_rows(world, kind, keys))
            if lost := [g.key for g in changes.gone_since(kind, since) if self._meant(g.key)]:
                gone[kind] = lost
        queues = changes.since("ClusterQueue", since)
        places = {} if self._kinds and not self._kinds & {"Job", "Workload"} else queues
        return answers.Delta(
            since=since,
            upto=world.seq,
            time=rfc3339(world.at),
            lag=self._cell.lag,
            changed=changed,
            gone=gone,
            places={name: rows.first_places(world, name) for name in places},
            log=[],
            log_cut=False,
        )

    def _meant(self, key: str) -> bool:
        return not self._namespace or "/" not in key or key.startswith(f"{self._namespace}/")


def _rows(world: World, kind: str, keys: Iterable[str]) -> Iterable[answers.Object]:
    """Yield what a frame says of objects: rows of those that lists show, of others that they changed."""
    match kind:
        case "Job":
            for row in rows.jobs_of(world, keys):
                yield msgspec.to_builtins(row)
        case "ClusterQueue":
            tree = QuotaTree(world)
            for key in keys:
                queue = world.view.cluster_queues.get(key)
                if queue is not None:
                    yield msgspec.to_builtins(rows.queue_row(world, tree, queue))
        case _:
            for key in keys:
                yield {"key": key, "version": world.changes.version(kind, key)}


def answering(handlers: Handlers) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return what answers requests for the stream; all who ask share frames."""
    frames = Frames()

    async def streamed(request: web.Request) -> web.StreamResponse:
        return await serve(handlers, Asked(request, handlers.access.user(request)), frames)

    return streamed


async def serve(handlers: Handlers, asked: Asked, frames: Frames) -> web.StreamResponse:
    """Answer a request for the stream."""
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
    )
    # Before the stream is begun: whoever asks a console that has not caught up yet gets an error to read.
    now, at = await handlers.cell.ask(0, lambda world: (world.seq, world.at))
    await response.prepare(asked.request)
    handlers.clients += 1
    try:
        with suppress(ConnectionError):
            await Stream(handlers, asked, frames).run(response, now, at)
    except Exception:
        # An error has no place in a stream that has begun. Cut off, the client comes back and goes on.
        if asked.request.transport is not None:
            asked.request.transport.abort()
        raise
    finally:
        handlers.clients -= 1
    return response
