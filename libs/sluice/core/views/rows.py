"""Records as rows of bytes and back.

A row is an array of the record's fields, made from the dataclass, so that no field can be forgotten; other
records are named by their key. Equal records have equal rows, whatever else is in the view.
"""

import dataclasses
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, get_type_hints

import msgspec

from sluice.events.base import WorkloadKey
from sluice.events.commit import AnyEvent

from .records import ClusterQueueView, JobView, LocalQueueView, PendingReason, Transition, WorkloadView

Rows = dict[str, bytes]

_ClassKey = tuple[str, int, tuple[tuple[str, int], ...], str]


def schema_of(types: object) -> str:
    """Return the text of types without the paths of modules: what only moves is still read as before."""
    return re.sub(r"\b[a-z_0-9]+\.", "", repr(types))


class Record[T]:
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

    def row(self, found: T) -> bytes:
        values = list(self.values(found))
        for index, value in self._instead:
            values[index] = value(found)
        return encode(self.part(*values))

    def read(self, row: bytes) -> Any:
        return self._decode(row)

    def fill(self, record: T, part: Any, *, but: Iterable[str]) -> None:
        """Set the fields of *record*; those of *but* name other records and are left alone."""
        for name in self.names:
            if name not in but:
                setattr(record, name, getattr(part, name))


encode = msgspec.msgpack.Encoder().encode


def _queue_name(found: WorkloadView | LocalQueueView) -> str | None:
    return None if found.cluster_queue is None else found.cluster_queue.name


WORKLOAD = Record(
    WorkloadView,
    without=("class_key", "transitions"),
    local_queue=(str, lambda w: w.local_queue.key),
    cluster_queue=(str | None, _queue_name),
    beside=(str | None, lambda w: None if w.beside is None else w.beside.key),
    variants=(list[str], lambda w: list(w.variants)),
)
LOCAL_QUEUE = Record(LocalQueueView, cluster_queue=(str | None, _queue_name))
CLUSTER_QUEUE = Record(
    ClusterQueueView,
    without=("order",),
    local_queues=(list[str], lambda q: list(q.local_queues)),
    verdicts=(list[tuple[_ClassKey, PendingReason]], lambda q: list(q.verdicts.items())),
)
JOB = Record(JobView, workloads=(list[str], lambda j: list(j.workloads)))

_HISTORY = msgspec.msgpack.Decoder(list[tuple[int, int, AnyEvent]])


def read_history(row: bytes | None) -> list[Transition]:
    """Return the history that was encoded; one that was not kept is empty."""
    return [] if row is None else [Transition(*each) for each in _HISTORY.decode(row)]


class Queues(Protocol):
    """What of a view is named in the rows of its workloads."""

    local_queues: dict[str, LocalQueueView]
    cluster_queues: dict[str, ClusterQueueView]

    def named_queue(self, name: str) -> ClusterQueueView:
        """Return the cluster queue for the sake of its name."""
        ...


class Reader:
    """Reads rows into one view; what they name is read with them, but for a queue's workloads."""

    def __init__(self, state: Queues, *, shared: dict[PendingReason, PendingReason] | None = None) -> None:
        """*shared*: verdicts, each once, as all workloads of one verdict share it; None: each its own."""
        self._state, self._shared = state, shared
        self.unread: dict[WorkloadKey, bytes] = {}
        """Histories out of a snapshot, of workloads that nobody has asked for yet."""

    def workload(self, row: bytes, history: Callable[[], bytes | None]) -> WorkloadView:
        """Return a workload; `linked` has to follow. *history* is asked when somebody asks for it."""
        values = list(WORKLOAD.values(WORKLOAD.read(row)))
        values.insert(_PEERS, None)
        values.insert(_TRANSITIONS, lambda: read_history(history()))
        values[_LOCAL] = self._state.local_queues[values[_LOCAL]]
        if values[_QUEUE] is not None:
            values[_QUEUE] = self._cluster(values[_QUEUE])
        if values[_PENDING] is not None:
            values[_PENDING] = self._verdict(values[_PENDING])
        for index, empty in _EMPTIES:
            if not values[index]:
                values[index] = empty
        return WorkloadView(*values)

    def linked(self, found: WorkloadView, known: Mapping[WorkloadKey, WorkloadView]) -> WorkloadView:
        """Put the records that the workload names into their places."""
        beside: Any = found.beside
        if beside is not None:
            found.beside = known.get(beside)
        # One that is gone since leaves its family with the next event.
        if found.variants:
            found.variants = {k: w for k in found.variants if (w := known.get(k)) is not None}
        return found

    def job(self, row: bytes, known: Mapping[WorkloadKey, WorkloadView]) -> JobView:
        part = JOB.read(row)
        job = JobView(*JOB.values(part))
        job.workloads = {key: w for key in part.workloads if (w := known.get(key)) is not None}
        return job

    def local_queue(self, key: str, row: bytes) -> LocalQueueView:
        part = LOCAL_QUEUE.read(row)
        # There before what it names is read: its cluster queue names it, too.
        local = self._state.local_queues[key] = LocalQueueView(part.key)
        LOCAL_QUEUE.fill(local, part, but=("cluster_queue",))
        local.cluster_queue = None if part.cluster_queue is None else self._cluster(part.cluster_queue)
        return local

    def cluster_queue(self, key: str, row: bytes) -> ClusterQueueView:
        part = CLUSTER_QUEUE.read(row)
        queue = self._state.cluster_queues[key] = ClusterQueueView(part.name)
        CLUSTER_QUEUE.fill(queue, part, but=("local_queues", "verdicts"))
        queue.local_queues = {local: self._state.local_queues[local] for local in part.local_queues}
        queue.verdicts = {key: self._verdict(said) for key, said in part.verdicts}
        return queue

    def _verdict(self, said: PendingReason) -> PendingReason:
        return said if self._shared is None else self._shared.setdefault(said, said)

    def _cluster(self, name: str) -> ClusterQueueView:
        """Return the queue; of one that the view no longer has, finished workloads say the name."""
        return self._state.named_queue(name)


_FIELDS = [f.name for f in dataclasses.fields(WorkloadView)]
_PEERS, _LOCAL, _QUEUE, _PENDING, _TRANSITIONS = (
    _FIELDS.index(name) for name in ("class_key", "local_queue", "cluster_queue", "pending", "transitions")
)
_EMPTIES = [
    (index, f.default_factory())
    for index, f in enumerate(dataclasses.fields(WorkloadView))
    if f.default_factory is not dataclasses.MISSING and f.default_factory() is f.default_factory()
]
"""Dictionaries of a workload that are one for all of them while they are empty."""

__all__ = ["Rows", "schema_of"]
