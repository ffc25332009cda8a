"""The view as bytes and back, so that a start need not fold the whole log.

Each record is a row by itself (`rows`). A row is read when somebody asks for its record
(`lazy_dict.LazyDict`), and one that nobody asked for is written again as it is; so are the blocks of
finished jobs. `VERSION` says which bytes this code reads: it changes by itself with the fields, and is
raised by hand when folding the same events leads to another state.
"""

import zlib
from typing import Any

import msgspec

from sluice.api import kueue
from sluice.events.base import WorkloadKey

from .finished import Kept
from .lazy_dict import LazyDict, Stored, as_stored
from .records import ActiveState, WorkloadView
from .rows import CLUSTER_QUEUE, JOB, LOCAL_QUEUE, WORKLOAD, Record, Rows, encode
from .totals import Exemplar
from .view import View

_FOLD = 17
"""Raise it when the same events are folded to another state."""

_Stored = dict[str, bytes | int]


class Histories(msgspec.Struct, frozen=True, array_like=True):
    """What `dump` leaves out: of workloads that lie open, by key, and blocks of those that lie packed."""

    open: dict[WorkloadKey, bytes]
    packed: dict[int, bytes]


_Snapshot: Any = msgspec.defstruct(
    "_Snapshot",
    [
        ("workloads", _Stored),
        ("jobs", _Stored),
        ("finished", Kept),
        ("parents", list[str]),
        ("slices", list[str]),
        ("local_queues", Rows),
        ("cluster_queues", Rows),
        ("cohorts", dict[str, kueue.CohortSpec]),
        ("checks", dict[str, ActiveState]),
        ("config", kueue.ConfigurationSpec),
        ("counters", dict[str, int]),
        ("totals", list[tuple[tuple[str, ...], int]]),
        ("exemplars", list[tuple[tuple[str, ...], tuple[int, int, int]]]),
    ],
    array_like=True,
)
_DECODER = msgspec.msgpack.Decoder(_Snapshot)

VERSION = zlib.crc32(
    "".join(each.schema for each in (WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE, JOB)).encode(), _FOLD
)


def dump(view: View) -> bytes:
    """Return the view as bytes that `load` of the same VERSION reads; without histories, which are large."""
    return encode(
        _Snapshot(
            workloads=_stored(WORKLOAD, view.workloads),
            jobs=_stored(JOB, view.jobs),
            finished=view.finished.dump(),
            parents=list(view.parents),
            slices=list(view.slices),
            local_queues=local_queue_rows(view),
            cluster_queues=cluster_queue_rows(view),
            cohorts=view.cohorts,
            checks=view.checks,
            config=view.config,
            counters={name: value for name, value in vars(view).items() if isinstance(value, int)},
            totals=list(view.totals.items()),
            exemplars=list(view.exemplars.items()),
        )
    )


def _stored(kind: Record[Any], found: dict[Any, Any]) -> dict[str, Stored]:
    """Return records as they are written; those that nobody has opened are left as they are."""
    return {key: one if isinstance(one, bytes | int) else kind.row(one) for key, one in as_stored(found)}


def dump_histories(view: View) -> Histories:
    """Return the histories that `dump` leaves out, for `with_histories`."""
    unread = view.finished.reader.unread
    found: dict[WorkloadKey, bytes] = {}
    for key, workload in as_stored(view.workloads):
        if isinstance(workload, WorkloadView):
            found[key] = encode(workload.history)
        elif key in unread:
            found[key] = unread[key]
    return Histories(found, view.finished.histories.stored)


def with_histories(view: View, histories: Histories) -> None:
    """Give a view that was just loaded what `dump_histories` returned."""
    view.finished.reader.unread.update(histories.open)
    view.finished.histories.stored = histories.packed


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
    view.exemplars = {series: Exemplar(*example) for series, example in found.exemplars}
    view.parents, view.slices = dict.fromkeys(found.parents), dict.fromkeys(found.slices)
    view.finished.load(found.finished)
    view.workloads.update(found.workloads)
    view.jobs.update(found.jobs)
    view.local_queues = LazyDict(view.finished.reader.local_queue)
    view.local_queues.update(found.local_queues)
    view.cluster_queues = LazyDict(view.finished.reader.cluster_queue)
    view.cluster_queues.update(found.cluster_queues)
    return view


def workload_rows(view: View) -> Rows:
    """Return the workloads as their rows."""
    packed = view.finished
    return {
        key: packed.part(one).workloads[WorkloadKey(key)] if isinstance(one, int) else one
        for key, one in _stored(WORKLOAD, view.workloads).items()
    }


def job_rows(view: View) -> Rows:
    """Return the jobs as their rows."""
    return {
        key: view.finished.part(one).job if isinstance(one, int) else one
        for key, one in _stored(JOB, view.jobs).items()
    }


def local_queue_rows(view: View) -> Rows:
    """Return the local queues as their rows."""
    return _rows(LOCAL_QUEUE, view.local_queues)


def cluster_queue_rows(view: View) -> Rows:
    """Return the cluster queues as their rows."""
    return _rows(CLUSTER_QUEUE, view.cluster_queues)


def _rows(kind: Record[Any], found: dict[Any, Any]) -> Rows:
    return {key: one if isinstance(one, bytes) else kind.row(one) for key, one in as_stored(found)}
