"""Finds the cell, and asks its api service over NATS request/reply."""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from sluice.cli.kit.errors import EXIT_UNAVAILABLE, CliError, no_api, no_server, refused
from sluice.cli.kit.settings import Settings
from sluice.local.cell_directory import Place, find
from sluice.log.errors import AppendRefusedError, LogUnavailableError
from sluice.log.nats.connection import Connection
from sluice.log.nats.protocol import Frame, addresses, shown, with_files
from sluice.protocol import query

CONNECT_TIMEOUT_S = 2.0
REQUEST_TIMEOUT_S = 15.0
LAST_CHANCE_S = 7.0
"""So long before patience ends, a question that was not answered is asked once more. When its users are
changed, a server forgets who may answer what is under way, and refuses the answer."""
WATCH_PATIENCE_S = 15.0
"""A watch lives through a restart of the service."""
BATCH_BYTES = 1024 * 1024
DEFAULT_CELL = "main"


@dataclass(frozen=True, slots=True)
class Target:
    """A cell: its server and its name."""

    url: str
    cell: str

    @property
    def shown(self) -> str:
        """The server as people may see it: without passwords or tokens."""
        return shown(self.url)


def find_target(settings: Settings) -> Target:
    """Return the cell to work with: --server, else SLUICE_NATS_URL, else the nearest `.sluice/`.

    --server is an address, or the directory of a cell on this machine.

    Raises:
        CliError: none is named and none runs here.
    """
    cell = settings.cell
    if settings.server:
        given = Place(Path(settings.server))
        if "://" not in settings.server and given.lock_file.is_file():
            return _running(given, cell)
        return Target(_with_scheme(settings.server), cell or DEFAULT_CELL)
    if url := os.environ.get("SLUICE_NATS_URL"):
        return Target(_with_scheme(url), cell or DEFAULT_CELL)
    place = find(Path.cwd())
    if place is None:
        raise CliError(
            "no cell here: there is no .sluice/ directory in this directory or above it",
            hint="Start one with `sluice up --detach`, or name a server with --server or SLUICE_NATS_URL.",
            exit_code=EXIT_UNAVAILABLE,
        )
    return _running(place, cell)


def _running(place: Place, cell: str | None) -> Target:
    state = place.running(wait_s=1.0)
    if state is None:
        raise CliError(
            f"the cell in {place.directory} is not running",
            hint="Start it again with `sluice up --detach`; its jobs and queues are kept in its log.",
            exit_code=EXIT_UNAVAILABLE,
        )
    return Target(state.url, cell or state.cell)


def _with_scheme(urls: str) -> str:
    """Return the servers, separated by commas, each with its scheme."""
    parts = [url.strip() for url in urls.split(",")]
    full = ",".join(url if "://" in url else f"nats://{url}" for url in parts)
    return with_files(full, os.environ.get("SLUICE_CREDENTIALS"), os.environ.get("SLUICE_CA"))


class Api:
    """A connection to a cell. Requests raise CliError when they are refused or nobody answers."""

    def __init__(self, connection: Connection, target: Target, heard: "asyncio.Queue[Frame]") -> None:
        self.connection, self.target, self._heard = connection, target, heard

    @property
    def max_payload(self) -> int:
        """Most bytes of one message that the server takes."""
        return self.connection.info.max_payload

    async def ask[T](
        self,
        subject: str,
        request: query.Request,
        answer: type[T],
        timeout_s: float = 0,
        patience_s: float = 1.0,
    ) -> T:
        """Send *request* to `sluice.<cell>.<subject>` and decode the answer.

        While nobody answers there, it is asked again for *patience_s*: the service may be just starting.
        A question (`query.`) whose answer does not come is asked once more; an order is not.
        """
        name, timeout_s = f"sluice.{self.target.cell}.{subject}", timeout_s or REQUEST_TIMEOUT_S
        payload = msgspec.json.encode(request)
        if len(payload) > self.max_payload:
            raise CliError(f"the request is larger than the server takes ({self.max_payload} bytes)")
        deadline = time.monotonic() + patience_s
        try:
            while True:
                try:
                    again = subject.startswith("query.")
                    return decode((await self._reply(name, payload, timeout_s, again=again)).payload, answer)
                except LogUnavailableError:
                    if time.monotonic() > deadline:
                        raise no_api(self.target.shown, self.target.cell) from None
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise CliError(
                f"the api service did not answer {subject} in {timeout_s:.0f} s",
                hint="See `sluice status`, and the api service's log.",
                exit_code=EXIT_UNAVAILABLE,
            ) from None
        except AppendRefusedError as error:
            raise CliError(
                f"the server does not let this user ask {name}: {error.detail}",
                hint="Log in as a user that may (SLUICE_CREDENTIALS names its key), or ask who runs it.",
            ) from None
        except ConnectionError as error:
            raise no_server(self.target.shown, _reason(error)) from None

    async def _reply(self, name: str, payload: bytes, timeout_s: float, *, again: bool) -> Frame:
        if self.connection.lost:
            self.connection = await _open(self.target, self._heard)
        asked = asyncio.create_task(self.connection.request(name, payload, timeout_s=timeout_s))
        tasks = [asked]
        try:
            if again and timeout_s > LAST_CHANCE_S:
                await asyncio.wait(tasks, timeout=timeout_s - LAST_CHANCE_S)
                if not asked.done():
                    other = self.connection.request(name, payload, timeout_s=LAST_CHANCE_S)
                    tasks.append(asyncio.create_task(other))
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return await done.pop()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def answers(self, subject: str, first_s: float, silence_s: float) -> list[bytes]:
        """Return what all say that answer on *subject*: until *silence_s* long nobody has."""
        return await self.connection.gather(subject, self._heard, first_s, silence_s)

    async def apply(self, request: query.ApplyRequest) -> query.ChangeAnswer:
        """Apply objects; so many that they do not fit into one message go in several."""
        seq, results = 0, list[query.Result]()
        for part in batches(request.objects):
            answer = await self.ask(
                "api.apply", msgspec.structs.replace(request, objects=part), query.ChangeAnswer
            )
            seq = max(seq, answer.seq)
            results += answer.results
        return query.ChangeAnswer(seq=seq, results=results)

    async def delete(self, request: query.DeleteRequest) -> query.ChangeAnswer:
        return await self.ask("api.delete", request, query.ChangeAnswer)

    async def list_page(self, request: query.ListRequest) -> query.ListAnswer:
        return await self.ask("query.list", request, query.ListAnswer)

    async def list(self, request: query.ListRequest) -> query.ListAnswer:
        """Return every page of a list as one answer, at the first page's sequence."""
        page = await self.list_page(request)
        items, seq = list(page.items), page.seq
        while page.continue_:
            page = await self.list_page(
                msgspec.structs.replace(request, continue_=page.continue_, min_seq=seq)
            )
            items += page.items
        return query.ListAnswer(seq=seq, items=items, kind=page.kind)

    async def get(
        self, kind: str, name: str, namespace: str = "", min_seq: int = 0, *, whole: bool = False
    ) -> query.Object | None:
        """Return one object, None when there is none; *whole*: of a job, with its spec."""
        request = query.ListRequest(kind=kind, name=name, namespace=namespace, min_seq=min_seq, whole=whole)
        found = await self.list(request)
        return found.items[0] if found.items else None

    async def watch(self, request: query.WatchRequest) -> query.WatchAnswer:
        """Return what changed, every page of it."""
        timeout_s = request.timeout_ms / 1000 + 10
        items, deleted = list[query.Object](), list[query.Reference]()
        while True:
            page = await self.ask("query.watch", request, query.WatchAnswer, timeout_s, WATCH_PATIENCE_S)
            items += page.items
            deleted += page.deleted
            if not page.continue_:
                return msgspec.structs.replace(page, items=items, deleted=deleted)
            request = msgspec.structs.replace(request, since=page.seq, continue_=page.continue_)

    async def status(self) -> query.Object:
        return await self.ask("query.status", query.StatusRequest(), dict[str, Any], 5.0, 0.0)

    async def history(self, request: query.HistoryRequest) -> query.ListAnswer:
        return await self.ask("query.history", request, query.ListAnswer)


def batches(objects: Sequence[query.Object]) -> Iterator[list[query.Object]]:
    """Yield the objects, in order, in parts of which each fits well into a message."""
    part: list[query.Object] = []
    size = 0
    for obj in objects:
        weight = len(msgspec.json.encode(obj))
        if part and size + weight > BATCH_BYTES:
            yield part
            part, size = [], 0
        part.append(obj)
        size += weight
    yield part


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


def decode[T](data: bytes, answer: type[T]) -> T:
    """Return the decoded answer.

    Raises:
        CliError: it is a Status: the request was refused.
    """
    if msgspec.json.decode(data, type=_Kind).kind == "Status":
        status = msgspec.json.decode(data, type=query.Status)
        if status.status == "Failure":
            raise refused(status)
    return msgspec.json.decode(data, type=answer)


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Api]:
    """Connect to the cell's server.

    Raises:
        CliError: it does not answer; says what to start.
    """
    heard = asyncio.Queue[Frame]()
    api = Api(await _open(target, heard), target, heard)
    try:
        yield api
    finally:
        await api.connection.shut()


async def _open(target: Target, heard: "asyncio.Queue[Frame]") -> Connection:
    """Connect to the first of the target's servers that answers."""

    def sink(frames: list[Frame]) -> None:
        for frame in frames:
            heard.put_nowait(frame)

    why = ""
    try:
        for address in addresses(target.url):
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    inbox = f"_INBOX.{secrets.token_hex(8)}"
                    return await Connection.open(address, "sluice-cli", inbox, sink, lambda: None)
            except (OSError, TimeoutError) as error:
                why = why or _reason(error)
    except ValueError as error:
        raise CliError(str(error)) from None
    raise no_server(target.shown, why)


def _reason(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError) and error.errno:
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "nothing answers there"
    return str(error) or type(error).__name__


def run[T](ctx: click.Context, work: Callable[[Api], Awaitable[T]]) -> T:
    """Connect to the cell of the command's settings and run *work* with it."""
    target = find_target(ctx.find_object(Settings) or Settings())

    async def session() -> T:
        async with connect(target) as api:
            return await work(api)

    return asyncio.run(session())
