"""The console's HTTP server: who may ask, what every answer carries, errors as answers."""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import structlog
from aiohttp import web

from sluice import __version__
from sluice.log.errors import EventLogError
from sluice.log.runtime.question_pool import QuestionPool
from sluice.readmodel.metrics import CellMetrics
from sluice.readmodel.objects import UnknownKindError
from sluice.readmodel.selector import SelectorError
from sluice.readmodel.world import World
from sluice.replay.source.moments import MomentError
from sluice.replay.source.source import LogFileError
from sluice.replay.source.time_travel import RangeError
from sluice.telemetry.http import Page, prometheus

from . import answers, openapi, stream
from .access import Access, User, check_write
from .actions.actor import Actor
from .asked import Asked
from .cell import Looked
from .handlers import Handlers
from .problems import NotFoundError, ProblemError, UnavailableError
from .questions import pool
from .routes import PREFIX, ROUTES, SESSIONS, Route
from .static_files import StaticFiles

MAX_BODY = 2 << 20
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = structlog.get_logger("sluice.console")

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def application(
    cell: Looked,
    access: Access,
    *,
    static: StaticFiles | None = None,
    questions: QuestionPool | None = None,
    actor: Actor | None = None,
) -> web.Application:
    """Return the console of a cell as an application.

    *actor*: does what admins ask for; None: nobody does.
    """
    pages = static or StaticFiles()
    handlers = Handlers(cell, access, questions or pool(), actor)
    guard = _Guard(access, pages.policy())
    app = web.Application(middlewares=[guard.middleware()], client_max_size=MAX_BODY)
    for route in (*ROUTES, *SESSIONS):
        app.router.add_route(route.method, PREFIX + route.path, _answering(handlers, route))
    document = msgspec.json.format(msgspec.json.encode(openapi.document()), indent=2)

    async def described(request: web.Request) -> web.StreamResponse:
        return _encoded(request, document, hashlib.sha256(document).hexdigest()[:16])

    async def healthy(_: web.Request) -> web.StreamResponse:
        upto = await cell.ask(0, lambda world: world.seq)
        return web.json_response({"upto": upto, "lag": cell.lag})

    async def unknown(request: web.Request) -> web.StreamResponse:
        raise NotFoundError("address", request.path[:200])

    async def static_file(request: web.Request) -> web.StreamResponse:
        return pages.file(request)

    async def page(request: web.Request) -> web.StreamResponse:
        return pages.page(request)

    app.router.add_get(f"{PREFIX}/openapi.json", described)
    app.router.add_get(f"{PREFIX}/stream", stream.answering(handlers))
    app.router.add_get("/healthz", healthy)
    app.router.add_get("/metrics", _metrics(cell, access))
    app.router.add_route("*", "/api/{rest:.*}", unknown)
    app.router.add_get("/static/{path:.+}", static_file)
    app.router.add_get("/{page:.*}", page)
    return app


def _metrics(cell: Looked, access: Access) -> Handler:
    numbers = {names: CellMetrics(lambda: seen[0], __version__, kueue_names=names) for names in (False, True)}
    seen: list[World] = []

    def measured(world: World, *, kueue_names: bool, accept: str) -> Page:
        seen[:] = [world]
        return prometheus(numbers[kueue_names], accept)

    async def metrics(request: web.Request) -> web.StreamResponse:
        access.user(request)
        accept = request.headers.get("Accept", "")
        asked = partial(measured, kueue_names=request.query.get("names") == "kueue", accept=accept)
        found = await cell.ask(0, asked)
        return web.Response(body=found.body, headers={"Content-Type": found.kind})

    return metrics


def _answering(handlers: Handlers, route: Route) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        data = await request.read() if route.method == "POST" else b""
        # What a route does is somebody's: only logging in and out is open to all.
        user = User() if route in SESSIONS else handlers.access.user(request)
        found = await route.answer(handlers, Asked(request, user, data))
        if isinstance(found, web.StreamResponse):
            return found
        body = msgspec.json.encode(found)
        upto = found.upto if isinstance(found, answers.Envelope) else 0
        return _encoded(request, body, f"{upto}-{hashlib.sha256(body).hexdigest()[:16]}")

    return answer


def _encoded(request: web.Request, body: bytes, etag: str) -> web.Response:
    headers = {"ETag": f'"{etag}"', "Cache-Control": "no-cache", "Vary": "Cookie, Authorization"}
    if request.method == "GET" and f'"{etag}"' in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    response = web.Response(body=body, content_type="application/json", headers=headers)
    if len(body) > 1_024:
        response.enable_compression()
    return response


class _Guard:
    """Stands before every request: by which name it came; what went wrong becomes an answer."""

    def __init__(self, access: Access, policy: str) -> None:
        self._access = access
        self._headers = {**_HEADERS, "Content-Security-Policy": policy}

    def middleware(self) -> Any:
        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        return guarded

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._access.check_host(request)
            if request.method not in ("GET", "HEAD"):
                check_write(request)
            response = await handler(request)
        except Exception as error:
            response = _failure(request, error)
        if not response.prepared:
            response.headers.update(self._headers)
        return response


def _failure(request: web.Request, error: Exception) -> web.StreamResponse:
    match error:
        case ProblemError():
            found = error
        case UnknownKindError():
            found = NotFoundError("kind", str(error.args[0]))
        case RangeError() | MomentError() | SelectorError():
            found = ProblemError(str(error))
        case EventLogError() | LogFileError():
            found = UnavailableError(str(error))
        case web.HTTPException():
            found = ProblemError(error.reason)
            found.status, found.code = error.status, error.reason.replace(" ", "")
        case _:
            log.error("request failed", path=request.path, exc_info=error)
            found = ProblemError(f"{type(error).__name__}: {error}")
            found.status, found.code = 500, "InternalError"
    failure = answers.Failure(error=answers.Problem(code=found.code, message=found.message, hint=found.hint))
    headers = {"Cache-Control": "no-store"}
    if found.status == 429:
        headers["Retry-After"] = "3"
    body = msgspec.json.encode(failure)
    return web.Response(status=found.status, body=body, content_type="application/json", headers=headers)


class Server:
    """An application that listens. Use as an asynchronous context manager."""

    def __init__(self, app: web.Application, host: str, port: int) -> None:
        self._app, self._host, self._port = app, host, port
        self._runner: web.AppRunner | None = None
        self.port = port

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/"

    async def __aenter__(self) -> "Server":
        logging.getLogger("aiohttp.access").disabled = True
        self._runner = web.AppRunner(
            self._app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self.port = _port_of(self._runner) or self._port
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


def _port_of(runner: web.AppRunner) -> int:
    for address in runner.addresses:
        return int(address[1])
    return 0
