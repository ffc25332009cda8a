"""The view as bytes and back, so that a start need not fold the whole log.

Each record is written as an array of its fields, made from the dataclass itself, so that no field can be
forgotten; queues that records refer to are named by their number, workloads by their key. `VERSION` says
which bytes this code reads: it changes by itself with the fields, and is raised by hand when folding the
same events leads to another state.
"""

import dataclasses
import operator
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_type_hints

import msgspec

from sluice.api import kueue
from sluice.events.commit import AnyEvent
from sluice.events.slices import WorkloadRecord

from .records import (
    ActiveState,
    ClusterQueueView,
    JobView,
    LocalQueueView,
    PendingReason,
    Transition,
    WorkloadView,
)
from .view import View

_FOLD = 5
"""Raise it when the same events are folded to another state."""

_Peers = tuple[str, int, tuple[tuple[str, int], ...], str]


class _Record[T]:
    """How records of one dataclass are written: `instead` are fields with another type on the wire."""

    def __init__(self, kind: type[T], *, without: Iterable[str] = (), **instead: Any) -> None:
        hints = get_type_hints(kind)
        self.names = [f.name for f in dataclasses.fields(kind) if f.name not in without]  # type: ignore[arg-type]
        types = [(name, instead.get(name, hints[name])) for name in self.names]
        self.part: Any = msgspec.defstruct(f"{kind.__name__}Part", types, array_like=True, gc=False)
        self.parts: Any = list.__class_getitem__(self.part)
        self.schema = repr(types)
        self.values = operator.attrgetter(*self.names)

    def dump(self, found: T, **instead: Any) -> Any:
        return self.part(*[instead[n] if n in instead else getattr(found, n) for n in self.names])

    def fill(self, record: T, part: Any, *, but: Iterable[str]) -> None:
        """Set the fields of *record*; those of *but* name other records and are left alone."""
        for name in self.names:
            if name not in but:
                setattr(record, name, getattr(part, name))


_WORKLOAD = _Record(
    WorkloadView,
    without=("peers", "variants"),
    # None: the one that the history begins with.
    record=WorkloadRecord | None,
    local_queue=int,
    cluster_queue=int | None,
    pending=int | None,
    beside=str | None,
    history=list[tuple[int, int, AnyEvent]],
)
_LOCAL_QUEUE = _Record(LocalQueueView, cluster_queue=int | None, pending=list[str])
_CLUSTER_QUEUE = _Record(
    ClusterQueueView,
    without=("order",),
    local_queues=list[str],
    workloads=list[str],
    verdicts=list[tuple[_Peers, int]],
)
_JOB = _Record(JobView, workloads=list[str])

_SHARED = {
    f.name: f.default_factory()
    for f in dataclasses.fields(WorkloadView)
    if f.default_factory is not dataclasses.MISSING and f.default_factory() is f.default_factory()
}
"""Dictionaries of a workload that are one for all of them while they are empty."""

_Snapshot: Any = msgspec.defstruct(
    "_Snapshot",
    [
        ("workloads", _WORKLOAD.parts),
        ("variants", dict[str, list[str]]),
        ("jobs", _JOB.parts),
        ("local_queues", _LOCAL_QUEUE.parts),
        ("known_local_queues", int),
        ("cluster_queues", _CLUSTER_QUEUE.parts),
        ("known_cluster_queues", int),
        ("pending", list[PendingReason]),
        ("cohorts", dict[str, kueue.CohortSpec]),
        ("checks", dict[str, ActiveState]),
        ("config", kueue.ConfigurationSpec),
        ("counters", dict[str, int]),
        ("totals", list[tuple[tuple[str, ...], int]]),
    ],
    array_like=True,
)
_DECODER = msgspec.msgpack.Decoder(_Snapshot)

VERSION = zlib.crc32(
    "".join(each.schema for each in (_WORKLOAD, _LOCAL_QUEUE, _CLUSTER_QUEUE, _JOB)).encode(), _FOLD
)


class _Numbers[T]:
    """Numbers records, each once: those of the view first, then those that only others still refer to."""

    def __init__(self, known: Iterable[T] = ()) -> None:
        self.all: list[T] = []
        self._of: dict[int, int] = {}
        for record in known:
            self.of(record)

    def of(self, record: T) -> int:
        found = self._of.get(id(record))
        if found is None:
            found = self._of[id(record)] = len(self.all)
            self.all.append(record)
        return found


def dump(view: View, history: Callable[[WorkloadView], bool] = lambda _: True) -> bytes:
    """Return the view as bytes that `load` of the same VERSION reads.

    *history*: whose history is kept; without any, a view takes a third of the room.
    """
    verdicts: _Numbers[PendingReason] = _Numbers()
    local_queues = _Numbers(view.local_queues.values())
    cluster_queues = _Numbers(view.cluster_queues.values())

    def workload_part(workload: WorkloadView) -> Any:
        queue, pending = workload.cluster_queue, workload.pending
        kept = workload.history if history(workload) else []
        return _WORKLOAD.dump(
            workload,
            history=kept,
            record=None if _created_as(kept) is workload.record else workload.record,
            local_queue=local_queues.of(workload.local_queue),
            cluster_queue=None if queue is None else cluster_queues.of(queue),
            pending=None if pending is None else verdicts.of(pending),
            beside=None if workload.beside is None else workload.beside.key,
        )

    def local_queue_part(local: LocalQueueView) -> Any:
        queue = local.cluster_queue
        return _LOCAL_QUEUE.dump(
            local,
            cluster_queue=None if queue is None else cluster_queues.of(queue),
            pending=list(local.pending),
        )

    def cluster_queue_part(queue: ClusterQueueView) -> Any:
        return _CLUSTER_QUEUE.dump(
            queue,
            local_queues=list(queue.local_queues),
            workloads=list(queue.workloads),
            verdicts=[(peers, verdicts.of(said)) for peers, said in queue.verdicts.items()],
        )

    # In this order, since each may refer to more of the next.
    workloads = [workload_part(workload) for workload in view.workloads.values()]
    local_parts = [local_queue_part(local) for local in local_queues.all]
    cluster_parts = [cluster_queue_part(queue) for queue in cluster_queues.all]
    return msgspec.msgpack.encode(
        _Snapshot(
            workloads=workloads,
            variants={key: list(w.variants) for key, w in view.workloads.items() if w.variants},
            jobs=[_JOB.dump(job, workloads=list(job.workloads)) for job in view.jobs.values()],
            local_queues=local_parts,
            known_local_queues=len(view.local_queues),
            cluster_queues=cluster_parts,
            known_cluster_queues=len(view.cluster_queues),
            pending=verdicts.all,
            cohorts=view.cohorts,
            checks=view.checks,
            config=view.config,
            counters={name: value for name, value in vars(view).items() if isinstance(value, int)},
            totals=list(view.totals.items()),
        )
    )


def load(data: bytes) -> View:
    """Return the view that was dumped.

    Raises:
        msgspec.DecodeError, LookupError: the bytes are of another version, or damaged.
    """
    found = _DECODER.decode(data)
    view = View()
    view.cohorts, view.config, view.checks = found.cohorts, found.config, found.checks
    for name, value in found.counters.items():
        setattr(view, name, value)
    view.totals = dict(found.totals)
    cluster_queues = [ClusterQueueView(part.name) for part in found.cluster_queues]
    local_queues = [LocalQueueView(part.key) for part in found.local_queues]
    known = view.workloads
    for part in found.workloads:
        known[part.key] = _workload(part, local_queues, cluster_queues, found.pending)
    for part in found.workloads:
        if part.beside is not None:
            known[part.key].beside = known[part.beside]
    for parent, variants in found.variants.items():
        view.workloads[parent].variants = {key: known[key] for key in variants}
    for part in found.jobs:
        job = view.jobs[part.key] = JobView(*_JOB.values(part))
        job.workloads = {key: known[key] for key in part.workloads}
    for local, part in zip(local_queues, found.local_queues, strict=True):
        _LOCAL_QUEUE.fill(local, part, but=("cluster_queue", "pending"))
        local.cluster_queue = None if part.cluster_queue is None else cluster_queues[part.cluster_queue]
        local.pending = {key: known[key] for key in part.pending}
    view.local_queues = {local.key: local for local in local_queues[: found.known_local_queues]}
    for queue, part in zip(cluster_queues, found.cluster_queues, strict=True):
        _CLUSTER_QUEUE.fill(queue, part, but=("local_queues", "workloads", "verdicts"))
        queue.local_queues = {key: view.local_queues[key] for key in part.local_queues}
        queue.workloads = {key: known[key] for key in part.workloads}
        queue.verdicts = {peers: found.pending[number] for peers, number in part.verdicts}
    view.cluster_queues = {queue.name: queue for queue in cluster_queues[: found.known_cluster_queues]}
    return view


def _created_as(history: Sequence[Transition]) -> Any:
    """Return the record that the history begins with; None when it begins otherwise."""
    return getattr(history[0].event, "workload", None) if history else None


_FIELDS = [f.name for f in dataclasses.fields(WorkloadView)]
_LEFT_OUT = [(i, _SHARED.get(name)) for i, name in enumerate(_FIELDS) if name not in _WORKLOAD.names]
_LOCAL, _QUEUE, _PENDING, _BESIDE, _RECORD, _HISTORY = (
    _FIELDS.index(name) for name in ("local_queue", "cluster_queue", "pending", "beside", "record", "history")
)
_EMPTIES = [(_FIELDS.index(name), empty) for name, empty in _SHARED.items()]


def _workload(
    part: Any,
    local_queues: Sequence[LocalQueueView],
    cluster_queues: Sequence[ClusterQueueView],
    verdicts: Sequence[PendingReason],
) -> WorkloadView:
    """Return a workload but for the workloads that it names; in one go, as there are very many."""
    values = list(_WORKLOAD.values(part))
    for index, value in _LEFT_OUT:
        values.insert(index, value)
    values[_LOCAL] = local_queues[values[_LOCAL]]
    if values[_QUEUE] is not None:
        values[_QUEUE] = cluster_queues[values[_QUEUE]]
    if values[_PENDING] is not None:
        values[_PENDING] = verdicts[values[_PENDING]]
    values[_BESIDE] = None
    if values[_HISTORY]:
        values[_HISTORY] = [Transition(*each) for each in values[_HISTORY]]
    if values[_RECORD] is None:
        values[_RECORD] = _created_as(values[_HISTORY])
    for index, empty in _EMPTIES:
        if not values[index]:
            values[index] = empty
    return WorkloadView(*values)


__all__ = ["VERSION", "dump", "load"]
