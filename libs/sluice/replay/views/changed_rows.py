"""Rows that may differ between two states of a cell: found without a look at what is the same.

A row is an object by itself (`sluice.core.views.rows`). What is said of an object depends on a few
others, too: of a job on its workload, of a workload on its family and on its queues.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sluice.core.views import ClusterQueueView, LocalQueueView
from sluice.core.views import snapshot as views
from sluice.core.views.rows import Rows
from sluice.core.views.view import View
from sluice.events.base import WorkloadKey
from sluice.log.cell import CellState

Keys = dict[str, None]


class Scope(NamedTuple):
    """Keys of what may differ, each in order; what is not among them is the same in both states."""

    workloads: Keys
    jobs: Keys
    cluster_queues: Keys


STEPS = 4
"""What `scope` tells of its progress."""


def scope(before: CellState, after: CellState, progress: Callable[[int], None] = lambda _: None) -> Scope:
    """Return what may differ between two states."""
    old, new = before.view, after.view
    workloads = _rows(views.workload_rows(old), views.workload_rows(new))
    progress(1)
    jobs = _rows(views.job_rows(old), views.job_rows(new))
    progress(2)
    locals_ = _rows(views.local_queue_rows(old), views.local_queue_rows(new))
    queues = _rows(views.cluster_queue_rows(old), views.cluster_queue_rows(new))
    for view in (old, new):
        workloads |= dict.fromkeys(_bystanders(old, new, view, locals_, queues))
    progress(3)
    for view in (old, new):
        if view.parents:
            for key in [*workloads]:
                workloads |= dict.fromkeys(_family(view, key))
    for view in (old, new):
        # One that came or went has changed its job's row, too.
        stayed = (key for key in workloads if key in old.workloads and key in new.workloads)
        jobs |= dict.fromkeys(_owners(view, stayed))
        # How many wait in a queue is known from its local queues.
        queues |= dict.fromkeys(_above(view, locals_))
    progress(STEPS)
    return Scope(*(dict.fromkeys(sorted(keys)) for keys in (workloads, jobs, queues)))


def _rows(old: Rows, new: Rows) -> Keys:
    found = {key: None for key, row in old.items() if new.get(key) != row}
    return found | {key: None for key in new if key not in old}


def _bystanders(old: View, new: View, view: View, locals_: Keys, queues: Keys) -> Iterator[str]:
    """Yield the workloads of *view* that are seen otherwise because of their queues."""
    if old.config != new.config:
        yield from view.workloads
        return
    moved = {k: None for k in locals_ if _local(old.local_queues.get(k)) != _local(new.local_queues.get(k))}
    turned = {
        k: None for k in queues if _queue(old.cluster_queues.get(k)) != _queue(new.cluster_queues.get(k))
    }
    if moved or turned:
        for key, workload in view.workloads.items():
            held, queue = workload.cluster_queue, workload.local_queue.cluster_queue
            if workload.local_queue.key in moved or any(q and q.name in turned for q in (held, queue)):
                yield key
    for name in queues:
        was, is_ = old.cluster_queues.get(name), new.cluster_queues.get(name)
        if name not in turned and was is not None and is_ is not None and was.verdicts != is_.verdicts:
            for local in view.cluster_queues[name].local_queues.values():
                yield from local.pending


def _local(queue: LocalQueueView | None) -> object:
    """Return what of a local queue shows in its workloads."""
    if queue is None:
        return None
    above = queue.cluster_queue
    return queue.spec, queue.changed_seq, None if above is None else above.name


def _queue(queue: ClusterQueueView | None) -> object:
    """Return what of a cluster queue shows in its workloads, but for the verdicts."""
    return None if queue is None else (queue.spec, queue.changed_seq, queue.terminating, queue.active)


def _family(view: View, key: str) -> Iterator[str]:
    """Yield a variant's parent and siblings, a parent's variants: whether one may run shows in all."""
    workload = view.workloads.get(WorkloadKey(key))
    parent = workload.record.parent if workload is not None else None
    root = view.workloads.get(parent) if parent is not None else workload
    if root is not None and (root.variants or root is not workload):
        yield root.key
        yield from root.variants


def _owners(view: View, workloads: Iterable[str]) -> Iterator[str]:
    for key in workloads:
        workload = view.workloads.get(WorkloadKey(key))
        if workload is not None and workload.record.job is not None:
            yield workload.record.job.key


def _above(view: View, locals_: Keys) -> Iterator[str]:
    for key in locals_:
        local: LocalQueueView | None = view.local_queues.get(key)
        if local is not None and local.cluster_queue is not None:
            yield local.cluster_queue.name
