"""Answers to queries, from the world as it is."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from sluice.core.views import notices, positions
from sluice.events.base import JobKey, WorkloadKey
from sluice.protocol import query

from .follower import Follower
from .objects import NAMESPACED_KINDS, keys, known, render
from .scope import cleaned, in_scope
from .selector import Selector
from .world import World

PAGE_BYTES = 4 * 1024 * 1024
"""A page ends here: with the last object, of at most 1 MiB, it fits into a message."""
PAGE_ITEMS = 1000
MAX_WATCH_S = 30.0
MIN_SEQ_TIMEOUT_S = 3.0


Enrich = Callable[[query.Object], Awaitable[query.Object]]


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


class _Page:
    """The objects of one answer, ended early so that it stays well below the server's limit of a message."""

    def __init__(
        self, world: World, kind: str, selector: Selector, limit: int, enrich: Enrich | None
    ) -> None:
        self._world, self._kind, self._selector = world, kind, selector
        self.items: list[query.Object] = []
        self._limit, self._enrich = limit, enrich
        self._size = 0

    @property
    def full(self) -> bool:
        return len(self.items) >= self._limit or self._size > PAGE_BYTES

    async def add(self, key: str) -> bool:
        """Add the object if there is one, and it is meant; return whether it was added."""
        obj = render(self._world, self._kind, key)
        if obj is None or not self._selector.matches(obj):
            return False
        if self._enrich is not None:
            obj = await self._enrich(obj)
        self.items.append(obj)
        if self._enrich is not None:
            self._size += len(msgspec.json.encode(obj))
        elif len(self.items) % 16 == 1:
            # Sizes differ little within a kind, so a sample of them will do.
            self._size += 16 * len(msgspec.json.encode(obj))
        return True


async def list_objects(
    world: World, request: query.ListRequest, enrich: Enrich | None = None
) -> query.ListAnswer:
    """Return one page of objects of a kind; *enrich* completes each of them.

    Raises:
        UnknownKindError, SelectorError: the request makes no sense.
    """
    selector = Selector(request.label_selector, request.field_selector)
    seq = world.seq
    page = _Page(world, request.kind, selector, request.limit, enrich)
    last = ""
    foreign = foreign_to(world, request.within)
    for key in _candidates(world, request):
        if not in_scope(request.kind, key, request.within):
            continue
        if request.continue_ and key <= request.continue_:
            continue
        if page.full:
            more = "" if request.waiting_in else last
            return query.ListAnswer(seq=seq, items=cleaned(page.items, foreign), continue_=more)
        if await page.add(key):
            last = key
    return query.ListAnswer(seq=seq, items=cleaned(page.items, foreign))


def foreign_to(world: World, within: Sequence[str] | None) -> frozenset[str] | None:
    """Return the namespaces that there are beside those in *within*; None when all may be seen."""
    if within is None:
        return None
    known = {key.partition("/")[0] for kind in ("Job", "Workload", "LocalQueue") for key in keys(world, kind)}
    return frozenset({*known, *world.objects.by_kind["Namespace"]} - {*within})


def _candidates(world: World, request: query.ListRequest) -> list[str]:
    """Return the keys that the request may mean, in a stable order: by namespace, then name."""
    if request.waiting_in and request.kind == "Workload":
        return list(islice(_waiting(world, request.waiting_in), request.limit))
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


async def watch(
    follower: Follower, request: query.WatchRequest, enrich: Enrich | None = None
) -> query.WatchAnswer:
    """Return what changed after `since`, waiting for a change for at most `timeout_ms`."""
    world = follower.world
    selector = Selector(request.label_selector, request.field_selector)
    known(world, request.kind)
    deadline = time.monotonic() + min(request.timeout_ms / 1000, MAX_WATCH_S)
    since = request.since
    if since and since < world.changes.forgotten:
        return query.WatchAnswer(seq=world.seq, reset=True)
    while True:
        seq = world.seq
        answer = await _changes(world, request, selector, since, enrich)
        if request.within is not None:
            items = cleaned(answer.items, foreign_to(world, request.within))
            answer = msgspec.structs.replace(answer, items=items)
        left = deadline - time.monotonic()
        if answer.items or answer.deleted or answer.continue_ or left <= 0:
            return answer
        await follower.at_least(seq + 1, left)
        # Changes come in bursts; a moment later they fill one answer instead of many.
        await asyncio.sleep(0.01)
        since = seq


async def _changes(
    world: World, request: query.WatchRequest, selector: Selector, since: int, enrich: Enrich | None
) -> query.WatchAnswer:
    """Return the changes after *since*, or as many as an answer holds, in order of the objects' last change.

    One event may change more objects than an answer holds; then the next request goes on within it.
    """
    seq = world.seq
    changed = world.changes.since(request.kind, since)
    if request.continue_:
        version = world.changes.version(request.kind, request.continue_)
        # One that has changed again meanwhile stands elsewhere: the rest of its event is sent once more.
        if version == since + 1:
            changed = changed[changed.index(request.continue_) + 1 :]
    page = _Page(world, request.kind, selector, PAGE_ITEMS, enrich)
    gone = list(world.changes.gone_since(request.kind, since))
    last = ""
    for key in changed:
        if page.full:
            at = world.changes.version(request.kind, last)
            if since < at <= seq:
                return query.WatchAnswer(
                    seq=at - 1,
                    items=page.items,
                    deleted=[
                        _reference(g.kind, g.key) for g in gone if g.seq < at and _meant(request, g.key)
                    ],
                    continue_=last,
                )
        if not _meant(request, key):
            continue
        if await page.add(key):
            last = key
    if request.places:
        shown = set(changed)
        for key in waiting_first(world, request.kind, since, request.places):
            if key in shown or not _meant(request, key):
                continue
            await page.add(key)
    return query.WatchAnswer(
        # Never back, also when the replica that answered before had come further.
        seq=max(seq, request.since),
        items=page.items,
        deleted=[_reference(g.kind, g.key) for g in gone if _meant(request, g.key)],
    )


def _waiting(world: World, queue: str) -> Iterator[str]:
    """Yield the workloads that wait in a cluster queue or a local one, in order of their places."""
    local = world.view.local_queues.get(queue)
    if local is None:
        yield from positions(world.view, queue)
    elif local.cluster_queue is not None:
        for key in positions(world.view, local.cluster_queue.name):
            if key in local.pending:
                yield key


def waiting_first(world: World, kind: str, since: int, places: int) -> Iterator[str]:
    """Yield those at the first *places* places of each cluster queue that changed after *since*."""
    if kind not in ("Job", "Workload"):
        return
    for queue in world.changes.since("ClusterQueue", since):
        for key, place in positions(world.view, queue).items():
            if place > places:
                break
            if not place:
                continue
            job = world.view.workloads[key].record.job
            if kind == "Workload":
                yield key
            elif job is not None:
                yield job.key


def _meant(request: query.WatchRequest, key: str) -> bool:
    namespace, slash, name = key.rpartition("/")
    if not in_scope(request.kind, key, request.within):
        return False
    if slash and request.namespace and namespace != request.namespace:
        return False
    return not request.name or name == request.name


def _reference(kind: str, key: str) -> query.Reference:
    namespace, _, name = key.rpartition("/")
    return query.Reference(kind=kind, name=name, namespace=namespace)


def history(world: World, request: query.HistoryRequest) -> query.ListAnswer:
    """Return what happened to a workload, or to all workloads of a job, oldest first."""
    key = f"{request.namespace}/{request.name}"
    if request.kind == "Job":
        job = world.view.jobs.get(JobKey(key))
        workloads = list(job.workloads.values()) if job is not None else []
    else:
        workload = world.view.workloads.get(WorkloadKey(key))
        workloads = [workload] if workload is not None else []
    entries: list[query.Object] = []
    for workload in workloads:
        for notice in notices(workload):
            event: Any = {} if notice.event is None else msgspec.to_builtins(notice.event)
            entries.append(
                {
                    "seq": notice.seq,
                    "at": notice.at,
                    "workload": workload.key,
                    "event": event,
                    "type": notice.type,
                    "reason": notice.reason,
                    "message": notice.message,
                }
            )
    entries.sort(key=lambda entry: (entry["seq"], entry["at"]))
    cut, items = entries[: -request.limit], entries[-request.limit :]
    # What has no event of its own says more of the one before, and is none.
    omitted = sum(1 for entry in cut if entry["event"]) + sum(
        each.remembered - len(each.history) for each in workloads
    )
    items = cleaned(items, foreign_to(world, request.within))
    return query.ListAnswer(seq=world.seq, items=items, omitted=omitted)
