"""Consequences of the dispatcher's commits: orders to links, and verdicts in its own cell."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from sluice.api.errors import UNREADABLE
from sluice.core.dispatch.orders import orders_of, orphans, sayings
from sluice.core.dispatch.state import State
from sluice.events.base import JobKey
from sluice.events.codec import decode_message, encode_message
from sluice.events.commit import Step
from sluice.events.job import JobEvent, JobFinished, JobPodsReady, JobStopped
from sluice.log.contract import Entry
from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.runtime.hooks import Hooks
from sluice.protocol.cells import CONTROLLERS, Order, Saying
from sluice.protocol.checks import CheckVerdict
from sluice.protocol.subjects import job_suffix, verdict_suffix

from .link import Link, Where, beating

AGAIN_S = 5.0
LOOK_S = 0.5

log = structlog.get_logger("sluice.dispatcher")


class Dispatching(Hooks[State]):
    """Works while this replica leads. *links*: the folder that describes links, by location."""

    def __init__(self, links: Path) -> None:
        self._folder = links
        self.log: JetStreamLog | None = None
        self.settled_now: Callable[[], bool] = lambda: False
        """Tells whether the state has nothing that is not in the log."""
        self.failed: Callable[[], None] = lambda: None
        """Called when it cannot go on: a successor begins anew."""
        self._state: State | None = None
        self._links: dict[str, Link] = {}
        self._said: dict[tuple[str, str, int, str], float] = {}
        self._missing: set[str] = set()
        """Locations of links of which was said that they are not there."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # Hooks

    def leading(self, state: State, own: int) -> None:  # noqa: ARG002
        self._state = state
        self._task = asyncio.create_task(self._run(), name="dispatching")
        self._task.add_done_callback(self._ended)

    def committed(self, state: State, steps: Sequence[Step], seq: int, effects: Sequence[object]) -> None:  # noqa: ARG002
        self._state = state
        self._wake.set()

    def settled(self, state: State, upto: int) -> None:  # noqa: ARG002
        self._state = state
        self._wake.set()

    def following(self) -> None:
        self._end()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            log.error("cannot go on", error=repr(task.exception()))
            self.failed()

    async def drain(self) -> None:
        task = self._task
        self._end()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    # Work

    async def _run(self) -> None:
        assert self.log is not None
        beats = [asyncio.create_task(self._beats(controller)) for controller in CONTROLLERS]
        try:
            while True:
                self._wake.clear()
                # What is not in the log yet must not show.
                if self.settled_now():
                    await self._look()
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            for task in beats:
                task.cancel()
            await asyncio.gather(
                *(link.close() for link in self._links.values()), *beats, return_exceptions=True
            )
            self._links.clear()

    async def _beats(self, controller: str) -> None:
        assert self.log is not None
        while True:
            try:
                await beating(self.log, controller)
            except (EventLogError, ConnectionError, TimeoutError):
                await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        """Compute from a state that is in the log what there is to do, and have it done."""
        state = self._state
        assert state is not None
        assert self.log is not None
        orders: dict[str, dict[JobKey, Order]] = {name: {} for name in state.clusters}
        said: list[Saying] = []
        for key in state.placements:
            for order in orders_of(state, key):
                orders.setdefault(order.cell, {})[order.job] = order
            said += sayings(state, key)
        for order in orphans(state):
            orders.setdefault(order.cell, {})[order.job] = order
        locations = dict(state.clusters)
        for name in [name for name in self._links if name not in locations]:
            await self._links.pop(name).close()
        for name, location in locations.items():
            if name not in self._links and (where := self._where(location or name)) is not None:
                self._links[name] = Link(name, where, self.log, self._manifest, partial(self._upto, name))
        for name, link in self._links.items():
            link.order(orders.get(name, {}))
        now = time.monotonic()
        for each in said:
            about = (each.workload, each.what, each.number, each.state)
            if self._said.get(about, -AGAIN_S) + AGAIN_S <= now:
                self._said[about] = now
                await self._say(each)

    def _upto(self, cell: str) -> int:
        found = self._state.cells.get(cell) if self._state is not None else None
        return found.upto if found is not None else 0

    def _where(self, location: str) -> Where | None:
        """Return the description of a link, None if there is none (yet) that can be read."""
        try:
            return msgspec.json.decode(
                (self._folder / f"{Path(location).name}.json").read_bytes(), type=Where
            )
        except (OSError, *UNREADABLE) as error:
            if location not in self._missing:
                log.warning("no link", location=location, error=str(error))
            self._missing.add(location)
            return None

    async def _manifest(self, order: Order) -> dict[str, Any] | None:
        """Return the manifest of the job that an order is about, as it stands in this cell's log."""
        assert self.log is not None
        newest: dict[str, Any] | None = None
        async for entries in self.log.read(order.first, [job_suffix(*order.origin.split("/", 1))]):
            for entry in entries:
                if entry.seq > order.last:
                    return newest
                found = None if entry.seq in order.refused else submitted(entry)
                if found is not None and not is_older(found, newest):
                    newest = found
        return newest

    async def _say(self, said: Saying) -> None:
        """Say something in this cell; what is not heard is said again."""
        assert self.log is not None
        data: JobEvent
        match said.what:
            case "Verdict":
                retry = said.after_s if said.state == "Retry" else None
                data = CheckVerdict(
                    workload=said.workload,
                    check=said.check,
                    attempt=said.number,
                    state=said.state or "Pending",
                    message=said.message,
                    requeue_after_seconds=retry,
                )
                suffix = verdict_suffix(said.controller)
            case "PodsReady":
                data = JobPodsReady(attempt=said.number, uid=said.uid)
            case "Stopped":
                data = JobStopped(attempt=said.number, uid=said.uid, message=said.message)
            case "Finished":
                data = JobFinished(
                    attempt=said.number, uid=said.uid, success=said.success, message=said.message
                )
        if said.what != "Verdict":
            suffix = job_suffix(*said.job.split("/", 1))
        message_id = f"dispatch.{said.uid}.{said.workload}.{said.number}.{said.what}{said.state}"
        payload = encode_message(
            message_id=message_id,
            source="sluice/dispatcher",
            event_type=type(data).__name__,
            subject=said.workload,
            at=time.time_ns() // 1000,
            data=data,
        )
        try:
            await self.log.append(suffix, payload, msg_id=message_id)
        except (EventLogError, ConnectionError, TimeoutError) as error:
            log.info("not said yet", what=said.what, workload=said.workload, error=str(error))
            self._said.clear()


def submitted(entry: Entry) -> dict[str, Any] | None:
    """Return the manifest that a message submits, None if it is another message."""
    event = decode_message(entry.payload)
    if isinstance(event, tuple) or event.type != "JobSubmitted":
        return None
    try:
        found: dict[str, Any] = msgspec.json.decode(event.data, type=dict[str, Any])
    except UNREADABLE:
        return None
    return found


def is_older(manifest: dict[str, Any], newest: dict[str, Any] | None) -> bool:
    """Tell whether a manifest was ignored, for its generation, when *newest* was the job's."""
    if newest is None:
        return False
    now, before = _generation(manifest), _generation(newest)
    return 0 < now < before


def _generation(manifest: dict[str, Any]) -> int:
    metadata = manifest.get("metadata")
    found = metadata.get("generation") if isinstance(metadata, dict) else None
    return found if isinstance(found, int) else 0
