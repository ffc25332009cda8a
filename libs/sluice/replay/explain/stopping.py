"""Who was told to stop for good, though nobody has evicted it: its job is deleted, or gets another workload.

The scheduler does not know of it: it has its quota until it has stopped.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.responses import DELETED, REPLACED
from sluice.core.world.workload import Workload
from sluice.events.base import Event, WorkloadKey
from sluice.events.codec import CommitDecodeError, decode_commit
from sluice.events.ids import seq_of
from sluice.events.slices import WRITER, JobSuspended, WorkloadDeleted
from sluice.replay.source.source import Source

_WORDS = {
    DELETED: "its job was deleted",
    REPLACED: "its job has changed, and gets another workload",
}

Stopping = Mapping[WorkloadKey, str]
"""Workload, of a job with variants the parent -> why it must stop, as words for people."""


def stopping_at(source: Source, seq: int, state: SchedulerState) -> Stopping:
    """Return who of those that have quota at *seq* is told to stop for good."""
    world = state.world
    admitted = [
        w
        for queue in world.cluster_queues.values()
        for w in queue.workloads.values()
        if w.admitted_at is not None and w.evicted_at is None and not w.stopped
    ]
    held = {world.workloads[job_of(w)].key: world.workloads[job_of(w)] for w in admitted}
    if not held:
        return {}
    # Nobody is told to stop before there is one.
    first = max(1, source.first, min(seq_of(w.uid) for w in held.values()))
    found: dict[WorkloadKey, str] = {}
    marks = [reason.encode() for reason in _WORDS]
    for entries in source.read(min(first, seq), seq, (WRITER,)):
        for entry in entries:
            if any(mark in entry.payload for mark in marks):
                with contextlib.suppress(CommitDecodeError):
                    found.update(
                        _told(
                            e
                            for step in decode_commit(entry.payload, entry.suffix, entry.seq).steps
                            for e in step.events
                        )
                    )
    return {key: why for key, why in found.items() if key in held}


def _told(events: Iterable[Event]) -> Iterator[tuple[WorkloadKey, str]]:
    for event in events:
        if isinstance(event, JobSuspended) and event.reason in _WORDS:
            yield event.workload, _WORDS[event.reason]


def job_of(workload: Workload) -> WorkloadKey:
    """Return the workload that speaks for its job: a variant's parent, else itself."""
    return workload.record.parent or workload.key


def gone(workload: Workload) -> Event:
    """Return what is said of it when it has stopped."""
    return WorkloadDeleted(cause=0, workload=job_of(workload))


__all__ = ["Stopping", "gone", "job_of", "stopping_at"]
