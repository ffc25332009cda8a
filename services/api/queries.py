"""Answers to queries, from the world as it is."""

import asyncio
import time
from typing import Any

import msgspec
from nats.aio.client import Client as Nats

from sluice.core.config_plan import status
from sluice.core.status.notices import notices
from sluice.events.base import JobKey, WorkloadKey
from sluice.events.codec import decode_message
from sluice.events.query import (
    HistoryRequest,
    ListAnswer,
    ListRequest,
    Object,
    Reference,
    Status,
    WatchAnswer,
    WatchRequest,
)
from sluice.log.subjects import Cell

from .follower import Follower
from .objects import NAMESPACED_KINDS, keys, render
from .selector import Selector
from .world import World

PAGE_BYTES = 4 * 1024 * 1024
"""A page is ended early so that its answer stays well below the server's limit of a message."""
MAX_WATCH_S = 30.0
MIN_SEQ_TIMEOUT_S = 3.0


class TooNewError(Exception):
    """The log has not come to the sequence that the request wants to see."""

    def __init__(self, wanted: int, seq: int) -> None:
        super().__init__(f"the log has not come to sequence {wanted} yet, it is at {seq}; try again")


async def wait_for(follower: Follower, min_seq: int) -> None:
    """Wait until *min_seq* is folded.

    Raises:
        TooNewError: it does not come.
    """
    if not await follower.at_least(min_seq, MIN_SEQ_TIMEOUT_S):
        raise TooNewError(min_seq, follower.world.seq)


def list_objects(world: World, request: ListRequest) -> ListAnswer:
    """Return one page of objects of a kind.

    Raises:
        UnknownKindError, SelectorError: the request makes no sense.
    """
    selector = Selector(request.label_selector, request.field_selector)
    items: list[Object] = []
    size = 0
    last = ""
    for key in _candidates(world, request):
        if request.continue_ and key <= request.continue_:
            continue
        if len(items) >= request.limit or size > PAGE_BYTES:
            return ListAnswer(seq=world.seq, items=items, continue_=last)
        obj = render(world, request.kind, key)
        if obj is None or not selector.matches(obj):
            continue
        items.append(obj)
        last = key
        # Sizes differ little within a kind, so a sample of them will do.
        if len(items) % 16 == 1:
            size += 16 * len(msgspec.json.encode(obj))
    return ListAnswer(seq=world.seq, items=items)


def _candidates(world: World, request: ListRequest) -> list[str]:
    """Return the keys that the request may mean, in a stable order: by namespace, then name."""
    found = list(keys(world, request.kind))
    if request.kind in NAMESPACED_KINDS:
        if request.namespace and request.name:
            wanted = f"{request.namespace}/{request.name}"
            return [wanted] if render(world, request.kind, wanted) is not None else []
        if request.namespace:
            found = [key for key in found if key.startswith(f"{request.namespace}/")]
        if request.name:
            found = [key for key in found if key.partition("/")[2] == request.name]
    elif request.name:
        found = [key for key in found if key == request.name]
    return sorted(found)


async def watch(follower: Follower, request: WatchRequest) -> WatchAnswer:
    """Return what changed after `since`, waiting for a change for at most `timeout_ms`."""
    world = follower.world
    selector = Selector(request.label_selector, request.field_selector)
    list(keys(world, request.kind))
    deadline = time.monotonic() + min(request.timeout_ms / 1000, MAX_WATCH_S)
    since = request.since
    if since and since < world.changes.forgotten:
        return WatchAnswer(seq=world.seq, reset=True)
    while True:
        seq = world.seq
        items = [
            obj
            for key in world.changes.since(request.kind, since)
            if _meant(request, key)
            and (obj := render(world, request.kind, key)) is not None
            and selector.matches(obj)
        ]
        deleted = [
            _reference(request.kind, key)
            for key in world.changes.gone_since(request.kind, since)
            if _meant(request, key)
        ]
        left = deadline - time.monotonic()
        if items or deleted or left <= 0:
            # Never back, also when the replica that answered before had come further.
            return WatchAnswer(seq=max(seq, request.since), items=items, deleted=deleted)
        await follower.at_least(seq + 1, left)
        # Changes come in bursts; a moment later they fill one answer instead of many.
        await asyncio.sleep(0.01)
        since = seq


def _meant(request: WatchRequest, key: str) -> bool:
    namespace, slash, name = key.rpartition("/")
    if slash and request.namespace and namespace != request.namespace:
        return False
    return not request.name or name == request.name


def _reference(kind: str, key: str) -> Reference:
    namespace, _, name = key.rpartition("/")
    return Reference(kind=kind, name=name, namespace=namespace)


def history(world: World, request: HistoryRequest) -> ListAnswer:
    """Return what happened to a workload, or to all workloads of a job, oldest first."""
    key = f"{request.namespace}/{request.name}"
    if request.kind == "Job":
        job = next((job for name, job in world.view.jobs.items() if name == key), None)
        workloads = list(job.workloads.values()) if job is not None else []
    else:
        workload = world.view.workloads.get(WorkloadKey(key))
        workloads = [workload] if workload is not None else []
    entries: list[Object] = []
    for workload in workloads:
        for transition, notice in zip(workload.history, notices(workload), strict=True):
            event: Any = msgspec.to_builtins(transition.event)
            entries.append(
                {
                    "seq": transition.seq,
                    "at": transition.at,
                    "workload": workload.key,
                    "event": event,
                    "type": notice.type,
                    "reason": notice.reason,
                    "message": notice.message,
                }
            )
    entries.sort(key=lambda entry: (entry["seq"], entry["at"]))
    return ListAnswer(seq=world.seq, items=entries[-request.limit :])


def refusal(reason: str, message: str) -> Status:
    """Return a Status for a request that makes no sense or cannot be served now."""
    return status(reason, message)


async def manifest(world: World, connection: Nats, cell: Cell, request: ListRequest) -> ListAnswer:
    """Return one job as it was submitted, with its status; the manifest is read from the log."""
    key = JobKey(f"{request.namespace}/{request.name}")
    obj = render(world, "Job", key)
    submitted = world.jobs.get(key)
    if obj is None:
        return ListAnswer(seq=world.seq)
    if submitted is not None:
        stored = await connection.jetstream().get_msg(cell.stream, submitted.seq)
        event = decode_message(stored.data or b"")
        if not isinstance(event, tuple):
            whole: Any = msgspec.json.decode(event.data)
            if isinstance(whole, dict) and "spec" in whole:
                obj = {**obj, "spec": whole["spec"], "status": obj["status"]}
    return ListAnswer(seq=world.seq, items=[obj])
