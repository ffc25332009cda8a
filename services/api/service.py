"""The api service: the endpoints, and what they share."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog

from sluice import __version__
from sluice.api.decode import wrong_fields
from sluice.api.errors import FieldError
from sluice.core.config.plan import status
from sluice.core.views.totals import series
from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.objects import ObjectBucket
from sluice.log.nats.responder import Responder
from sluice.log.runtime.bases import Bases
from sluice.log.runtime.clock import BoundedClock, ask_server, follow_server
from sluice.log.runtime.snapshot import Snapshots
from sluice.protocol import query
from sluice.readmodel import queries
from sluice.readmodel.follower import Follower
from sluice.readmodel.metrics import CellMetrics
from sluice.readmodel.objects import UnknownKindError, render
from sluice.readmodel.scope import ForbiddenError, check
from sluice.readmodel.selector import SelectorError
from sluice.telemetry.http import Page, Pages, Scrape, serving

from .changer import Changer, OvertakenError
from .config import Config
from .explainer import BusyError, Explainer, UnknownError
from .manifests import with_spec

SAVE_TIMEOUT_S = 4.0

log = structlog.get_logger("sluice.api")


class ApiService:
    """Follows the log and answers requests until `stop`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.log = JetStreamLog(config.nats_url, config.cell, name="api", replicas=config.stream_replicas)
        self.follower = Follower(
            self.log,
            Snapshots(ObjectBucket(self.log)),
            config.snapshot_entries,
            Bases(ObjectBucket(self.log, "bases")),
        )
        self.clock = BoundedClock()
        instance = f"{os.getpid():x}{time.time_ns() & 0xFFFFFF:x}"
        self.changer = Changer(self.log, self.follower, instance=instance, clock=self.clock)
        self.explainer = Explainer(self.config)
        self._tasks: set[asyncio.Task[None]] = set()
        self.responder = Responder(config.nats_url, f"api-{config.instance}")

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until *stop* is set.

        1. Open the log and catch up with it.
        2. Offer the endpoints; replicas share the requests.
        3. Follow, and finalize what its users have left.
        """
        await self.log.open()
        await ask_server(self.clock, self.log)
        self._spawn(follow_server(self.clock, self.log))
        await self.changer.start()
        following = asyncio.create_task(self.follower.run(self._advanced), name="follow")
        ready = asyncio.create_task(self.follower.ready.wait())
        await asyncio.wait({following, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            await self._offer()
            log.info("serving", seq=self.follower.world.seq, instance=self.config.instance)
        stopping = asyncio.create_task(stop.wait())
        try:
            async with serving(self.config.http, "API_HTTP", self._pages()):
                await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            for task in (following, stopping, ready, *self._tasks):
                task.cancel()
            await self.responder.close()
            await self.follower.save_last(SAVE_TIMEOUT_S)
            await self.log.close()

    def _pages(self) -> Pages:
        """Return what is served over HTTP, to orchestrators and Prometheus, without a login."""
        numbers = CellMetrics(lambda: self.follower.world, __version__, kueue_names=self.config.kueue_names)

        async def healthz() -> Page:
            return Page(msgspec.json.encode({"upto": self.follower.world.seq, "lag": self.follower.lag}))

        async def metrics() -> Scrape:
            return Scrape(numbers)

        return {"/healthz": healthz, "/metrics": metrics}

    async def _advanced(self) -> None:
        if self.follower.world.objects.terminating:
            self._spawn(self._finalize())

    async def _finalize(self) -> None:
        try:
            await self.changer.finalize()
        except (EventLogError, OvertakenError) as error:
            # The next batch of events tries again.
            log.warning("not finalized", error=str(error))

    # Endpoints

    async def _offer(self) -> None:
        await self.responder.open_in_the_end()
        await self.responder.offer(
            "sluice-api",
            __version__,
            f"Configuration and queries of the Sluice cell {self.config.cell}",
            {"cell": self.config.cell, "instance": self.config.instance},
            self._health,
        )
        for name, kind, handler in (
            ("api.apply", query.ApplyRequest, self.changer.apply),
            ("api.delete", query.DeleteRequest, self.changer.delete),
            ("query.list", query.ListRequest, self._list),
            ("query.watch", query.WatchRequest, self._watch),
            ("query.history", query.HistoryRequest, self._history),
            ("query.why", query.WhyRequest, self._why),
            ("query.status", query.StatusRequest, self._status),
        ):
            await self.responder.endpoint(
                name.replace(".", "-"),
                self.log.cell.subject(name),
                partial(self._answer, name, kind, handler),
            )

    async def _answer(
        self,
        name: str,
        kind: type[query.Request],
        answer: Callable[[Any], Awaitable[object]],
        request: bytes,
    ) -> bytes:
        try:
            reply = await answer(msgspec.json.decode(request, type=kind))
        except Exception as error:
            reply = _refusal(name, error, lambda: wrong_fields(request, kind))
        data = msgspec.json.encode(reply)
        if len(data) > self.responder.max_payload:
            data = msgspec.json.encode(
                status("BadRequest", f"the answer of {len(data)} bytes is too large; ask for less at once")
            )
        return data

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Queries

    async def _list(self, request: query.ListRequest) -> object:
        check(request)
        await queries.wait_for(self.follower, request.min_seq)
        return await queries.list_objects(self.follower.world, request, self._enrich(request))

    async def _watch(self, request: query.WatchRequest) -> object:
        check(request)
        return await queries.watch(self.follower, request, self._enrich(request))

    def _enrich(self, request: query.ListRequest | query.WatchRequest) -> queries.Enrich | None:
        """Return what completes each object of the answer, None when nothing is to be."""
        if not request.whole or request.kind != "Job":
            return None
        return partial(with_spec, self.follower.world, self.log)

    async def _history(self, request: query.HistoryRequest) -> object:
        check(request)
        await queries.wait_for(self.follower, request.min_seq)
        return queries.history(self.follower.world, request)

    async def _why(self, request: query.WhyRequest) -> object:
        check(request)
        await queries.wait_for(self.follower, request.min_seq)
        foreign = queries.foreign_to(self.follower.world, request.within)
        try:
            return await self.explainer.explain(request, self.follower.world.seq, foreign)
        except UnknownError as error:
            job = render(self.follower.world, "Job", f"{request.namespace}/{request.name}")
            if job is None:
                raise
            phase, message = job["status"].get("phase", ""), job["status"].get("message", "")
            raise UnknownError(f"{error}: the job is {phase}{': ' if message else ''}{message}") from None

    def _health(self) -> dict[str, Any]:
        """Return what the services API tells of this replica; every replica serves."""
        return {
            "service": "api",
            "instance": self.config.instance,
            "pid": os.getpid(),
            "role": "serving",
            "upto": self.follower.world.seq,
            "lag": self.follower.lag,
        }

    async def _status(self, request: query.StatusRequest) -> object:
        await queries.wait_for(self.follower, request.min_seq)
        standing, end = await self.log.standing()
        world = self.follower.world
        return query.StatusAnswer(
            cell=self.config.cell,
            seq=world.seq,
            end=end,
            log=standing,
            lag=self.follower.lag,
            instance=self.config.instance,
            rejected=world.jobs.rejected,
            writers={
                writer: query.WriterHead(seq=seq, at=at) for writer, (seq, at) in sorted(world.heads.items())
            },
            agents=[agent for name in world.agents() if (agent := render(world, "Agent", name)) is not None],
            totals=[
                {"metric": metric, "labels": labels, "value": value}
                for metric, labels, value in series(world.view.totals)
            ],
            counts={
                "jobs": len(world.view.jobs),
                "workloads": len(world.view.workloads),
                "clusterQueues": len(world.objects.by_kind["ClusterQueue"]),
            },
        )


def _refusal(name: str, error: Exception, wrong: Callable[[], Sequence[FieldError]]) -> query.Status:
    """Return the Status for a request that failed; faults of ours are logged with their trace.

    *wrong*: finds all fields of the request that are not as they must be.
    """
    match error:
        case msgspec.DecodeError():
            errors = wrong()
            text = "; ".join(map(str, errors)) or str(error)
            return status("BadRequest", f"{name}: {text}", errors=errors)
        case UnknownKindError():
            return status("NotFound", f"there is no kind {error.args[0]!r}")
        case SelectorError():
            return status("BadRequest", str(error))
        case ForbiddenError():
            return status("Forbidden", str(error))
        case UnknownError():
            return status("NotFound", str(error))
        case BusyError():
            return status("TooManyRequests", str(error))
        case queries.TooNewError() | OvertakenError() | EventLogError():
            return status("ServiceUnavailable", str(error))
    log.error("request failed", endpoint=name, exc_info=error)
    return status("InternalError", f"{name}: {type(error).__name__}: {error}")
