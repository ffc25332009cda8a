"""The view as bytes and back, so that a start need not fold the whole log.

Each record is a row by itself: an array of its fields, made from the dataclass, so that no field can be
forgotten; other records are named by their key. A row is read when somebody asks for its record
(`lazy_dict.Shelf`), and one that nobody asked for is written again as it is. Equal records have equal rows,
whatever else is in the view. `VERSION` says which bytes this code reads: it changes by itself with the
fields, and is raised by hand when folding the same events leads to another state.
"""

import dataclasses
import operator
import re
import zlib
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

import msgspec

from sluice.api import kueue
from sluice.events.commit import AnyEvent

from .lazy_dict import Shelf, as_stored
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

_FOLD = 13
"""Raise it when the same events are folded to another state."""

Rows = dict[str, bytes]

_ClassKey = tuple[str, int, tuple[tuple[str, int], ...], str]
_History = list[tuple[int, int, AnyEvent]]


def schema_of(types: object) -> str:
    """Return the text of types without the paths of modules: what only moves is still read as before."""
    return re.sub(r"\b[a-z_0-9]+\.", "", repr(types))


class _Record[T]:
    """How records of one dataclass are written. *instead*: type and value of what is another on the wire."""

    def __init__(
        self, kind: type[T], *, without: Iterable[str] = (), **instead: tuple[Any, Callable[[T], Any]]
    ) -> None:
        hints = get_type_hints(kind)
        self.names = [f.name for f in dataclasses.fields(kind) if f.name not in without]  # type: ignore[arg-type]
        types = [(name, instead[name][0] if name in instead else hints[name]) for name in self.names]
        self.part: Any = msgspec.defstruct(f"{kind.__name__}Part", types, array_like=True, gc=False)
        self.schema = schema_of(types)
        self.values = operator.attrgetter(*self.names)
        self._instead = [(self.names.index(name), value) for name, (_, value) in instead.items()]
        self._decode = msgspec.msgpack.Decoder(self.part).decode

    def rows(self, found: dict[Any, T]) -> Rows:
        """Return records as their rows; those that nobody has opened are left as they are."""
        return {k: one if isinstance(one, bytes) else self._row(one) for k, one in as_stored(found)}

    def _row(self, found: T) -> bytes:
        values = list(self.values(found))
        for index, value in self._instead:
            values[index] = value(found)
        return _encode(self.part(*values))

    def read(self, row: bytes) -> Any:
        return self._decode(row)

    def fill(self, record: T, part: Any, *, but: Iterable[str]) -> None:
        """Set the fields of *record*; those of *but* name other records and are left alone."""
        for name in self.names:
            if name not in but:
                setattr(record, name, getattr(part, name))


_encode = msgspec.msgpack.Encoder().encode


def _queue_name(found: WorkloadView | LocalQueueView) -> str | None:
    return None if found.cluster_queue is None else found.cluster_queue.name


_WORKLOAD = _Record(
    WorkloadView,
    without=("class_key", "history"),
    local_queue=(str, lambda w: w.local_queue.key),
    cluster_queue=(str | None, _queue_name),
    beside=(str | None, lambda w: None if w.beside is None else w.beside.key),
    variants=(list[str], lambda w: list(w.variants)),
)
_LOCAL_QUEUE = _Record(LocalQueueView, cluster_queue=(str | None, _queue_name))
_CLUSTER_QUEUE = _Record(
    ClusterQueueView,
    without=("order",),
    local_queues=(list[str], lambda q: list(q.local_queues)),
    verdicts=(list[tuple[_ClassKey, PendingReason]], lambda q: list(q.verdicts.items())),
)
_JOB = _Record(JobView, workloads=(list[str], lambda j: list(j.workloads)))

_HISTORIES = msgspec.msgpack.Decoder(_History)

_Snapshot: Any = msgspec.defstruct(
    "_Snapshot",
    [
        ("workloads", Rows),
        ("jobs", Rows),
        ("parents", list[str]),
        ("slices", list[str]),
        ("local_queues", Rows),
        ("cluster_queues", Rows),
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


def dump(view: View) -> bytes:
    """Return the view as bytes that `load` of the same VERSION reads; without histories, which are large."""
    return _encode(
        _Snapshot(
            workloads=workload_rows(view),
            jobs=job_rows(view),
            parents=list(view.parents),
            slices=list(view.slices),
            local_queues=local_queue_rows(view),
            cluster_queues=cluster_queue_rows(view),
            cohorts=view.cohorts,
            checks=view.checks,
            config=view.config,
            counters={name: value for name, value in vars(view).items() if isinstance(value, int)},
            totals=list(view.totals.items()),
        )
    )


def dump_histories(view: View) -> Rows:
    """Return the histories that `dump` leaves out, for `with_histories`."""
    unread = view.workloads.histories if isinstance(view.workloads, _Workloads) else {}
    found: Rows = {}
    for key, workload in as_stored(view.workloads):
        if isinstance(workload, WorkloadView):
            found[key] = _encode(workload.history)
        elif key in unread:
            found[key] = unread[key]
    return found


def with_histories(view: View, histories: Rows) -> None:
    """Give a view that was just loaded what `dump_histories` returned."""
    assert isinstance(view.workloads, _Workloads)
    view.workloads.histories.update(histories)


def load(data: bytes | msgspec.Raw) -> View:
    """Return the view that was dumped.

    Raises:
        msgspec.DecodeError: the bytes are of another version, or damaged. What is damaged inside a row is
            found when it is read.
    """
    found = _DECODER.decode(data)
    view = View()
    view.cohorts, view.config, view.checks = found.cohorts, found.config, found.checks
    for name, value in found.counters.items():
        setattr(view, name, value)
    view.totals = dict(found.totals)
    view.parents, view.slices = dict.fromkeys(found.parents), dict.fromkeys(found.slices)
    reader = _Reader(view)
    view.workloads = _Workloads(found.workloads, reader, {})
    view.jobs = Shelf(found.jobs, reader.job)
    view.local_queues = Shelf(found.local_queues, reader.local_queue)
    view.cluster_queues = Shelf(found.cluster_queues, reader.cluster_queue)
    return view


def workload_rows(view: View) -> Rows:
    """Return the workloads as their rows."""
    return _WORKLOAD.rows(view.workloads)


def job_rows(view: View) -> Rows:
    """Return the jobs as their rows."""
    return _JOB.rows(view.jobs)


def local_queue_rows(view: View) -> Rows:
    """Return the local queues as their rows."""
    return _LOCAL_QUEUE.rows(view.local_queues)


def cluster_queue_rows(view: View) -> Rows:
    """Return the cluster queues as their rows."""
    return _CLUSTER_QUEUE.rows(view.cluster_queues)


# Reading


class _Reader:
    """Reads rows into one view; what they name is read with them, but for a queue's workloads."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._verdicts: dict[PendingReason, PendingReason] = {}
        """Each once, as all workloads of one verdict share it."""
        self._gone: dict[str, ClusterQueueView] = {}
        """Queues that the view no longer has, of which finished workloads say the name."""

    def workload(self, row: bytes, history: bytes | None) -> WorkloadView:
        known = self._view.workloads
        values = list(_WORKLOAD.values(_WORKLOAD.read(row)))
        values.insert(_PEERS, None)
        values.insert(
            _HISTORY, [] if history is None else [Transition(*each) for each in _HISTORIES.decode(history)]
        )
        values[_LOCAL] = self._view.local_queues[values[_LOCAL]]
        if values[_QUEUE] is not None:
            values[_QUEUE] = self._cluster(values[_QUEUE])
        if values[_PENDING] is not None:
            values[_PENDING] = self._verdicts.setdefault(values[_PENDING], values[_PENDING])
        if values[_BESIDE] is not None:
            values[_BESIDE] = known.get(values[_BESIDE])
        # One that is gone since leaves its family with the next event.
        if values[_VARIANTS]:
            values[_VARIANTS] = {k: w for k in values[_VARIANTS] if (w := known.get(k)) is not None}
        for index, empty in _EMPTIES:
            if not values[index]:
                values[index] = empty
        return WorkloadView(*values)

    def job(self, _: str, row: bytes) -> JobView:
        part, known = _JOB.read(row), self._view.workloads
        job = JobView(*_JOB.values(part))
        job.workloads = {key: w for key in part.workloads if (w := known.get(key)) is not None}
        return job

    def local_queue(self, key: str, row: bytes) -> LocalQueueView:
        part = _LOCAL_QUEUE.read(row)
        # There before what it names is read: its cluster queue names it, too.
        local = self._view.local_queues[key] = LocalQueueView(part.key)
        _LOCAL_QUEUE.fill(local, part, but=("cluster_queue",))
        local.cluster_queue = None if part.cluster_queue is None else self._cluster(part.cluster_queue)
        return local

    def cluster_queue(self, key: str, row: bytes) -> ClusterQueueView:
        part = _CLUSTER_QUEUE.read(row)
        queue = self._view.cluster_queues[key] = ClusterQueueView(part.name)
        _CLUSTER_QUEUE.fill(queue, part, but=("local_queues", "verdicts"))
        queue.local_queues = {local: self._view.local_queues[local] for local in part.local_queues}
        queue.verdicts = {key: self._verdicts.setdefault(said, said) for key, said in part.verdicts}
        return queue

    def _cluster(self, name: str) -> ClusterQueueView:
        found: ClusterQueueView | None = self._view.cluster_queues.get(name)
        return self._gone.setdefault(name, ClusterQueueView(name)) if found is None else found


class _Workloads(Shelf[Any, WorkloadView]):
    """Workloads, with those of their histories that nobody has asked for yet."""

    __slots__ = ("histories",)

    def __init__(self, rows: Rows, reader: _Reader, histories: Rows) -> None:
        super().__init__(rows, lambda key, row: reader.workload(row, histories.pop(key, None)))
        self.histories = histories


_FIELDS = [f.name for f in dataclasses.fields(WorkloadView)]
_PEERS, _LOCAL, _QUEUE, _PENDING, _BESIDE, _VARIANTS, _HISTORY = (
    _FIELDS.index(name)
    for name in ("class_key", "local_queue", "cluster_queue", "pending", "beside", "variants", "history")
)
_EMPTIES = [
    (index, f.default_factory())
    for index, f in enumerate(dataclasses.fields(WorkloadView))
    if f.default_factory is not dataclasses.MISSING and f.default_factory() is f.default_factory()
]
"""Dictionaries of a workload that are one for all of them while they are empty."""
