"""Who was told to stop for good, though nobody has evicted it: its job is deleted, or gets another workload.

The scheduler does not know of it: it has its quota until it has stopped.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.responses import DELETED, REPLACED
from sluice.core.world.workload import Workload
from sluice.events.base import Event, WorkloadKey
from sluice.events.codec import CommitDecodeError, decode_commit, rfc3339
from sluice.events.ids import seq_of
from sluice.events.slices import WRITER, JobSuspended, WorkloadDeleted
from sluice.replay.source.source import Source

from .attendance import AGENT, Attendance

SHOWN = 3

_WORDS = {
    DELETED: "its job was deleted",
    REPLACED: "its job has changed, and gets another workload",
}


@dataclass(frozen=True)
class Stopping:
    """Who was told to stop for good, and who there is to answer."""

    told: Mapping[WorkloadKey, str] = field(default_factory=dict)
    """Workload, of a job with variants the parent -> why it must stop, as words for people."""
    attendance: Attendance | None = None
    """None: nobody has looked."""


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
    attendance = Attendance(source, seq)
    if not held:
        return Stopping({}, attendance)
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
    return Stopping({key: why for key, why in found.items() if key in held}, attendance)


def _told(events: Iterable[Event]) -> Iterator[tuple[WorkloadKey, str]]:
    for event in events:
        if isinstance(event, JobSuspended) and event.reason in _WORDS:
            yield event.workload, _WORDS[event.reason]


def job_of(workload: Workload) -> WorkloadKey:
    """Return the workload that speaks for its job: a variant's parent, else itself."""
    return workload.record.parent or workload.key


def unanswered(state: SchedulerState, stopping: Stopping, leaving: Sequence[Workload]) -> str:
    """Return who of those that must stop has nobody to say that it has, "" if there is somebody for each.

    An attempt that nobody has begun is answered for by any executor. One that was taken is over when its
    executor is lost, at the latest.
    """
    attendance = stopping.attendance
    if attendance is None or attendance.anybody(AGENT):
        return ""
    left = [w.key for w in leaving if not _runs(w) and attendance.taken(state, w) is None]
    if not left:
        return ""
    if len(left) == len(leaving):
        whose = "they have" if left[1:] else "it has"
    else:
        whose = ", ".join(left[:SHOWN]) + (f" and {len(left) - SHOWN} more" if left[SHOWN:] else "")
        whose += " have" if left[1:] else " has"
    return f"no executor is there to say that {whose} (see `sluice get agents`)"


def must_stop(state: SchedulerState, stopping: Stopping, leaving: Sequence[Workload], names: str) -> str:
    """Return that those of these *names* must stop first, and what it takes."""
    missing = unanswered(state, stopping, leaving)
    if missing:
        return f"an executor that comes: {names} must stop first, and {missing}"
    return f"nothing but time: {names} must stop first"


def _runs(workload: Workload) -> bool:
    """Has anybody said that its pods run? Maybe without a name."""
    return workload.pods_ready_at is not None or workload.pods_lost_at is not None


def not_running(state: SchedulerState, stopping: Stopping, workload: Workload) -> str:
    """Return that nobody has said yet that its pods run, and who has taken it; "" when somebody has."""
    if _runs(workload):
        return ""
    attendance = stopping.attendance
    taken = attendance.taken(state, workload) if attendance is not None else None
    if attendance is not None and taken is not None:
        away = "" if attendance.there(AGENT, taken.executor) else " (which nobody has seen, or is lost)"
        since = rfc3339(taken.since)
        return (
            f'Executor "{taken.executor}"{away} took it at {since}, and has not said yet that its pods run.'
        )
    if attendance is not None and not attendance.anybody(AGENT):
        return "An executor has to take it, and none is there (see `sluice get agents`)."
    return "An executor has to take it, and none has said yet that its pods run (see `sluice get agents`)."


def gone(workload: Workload) -> Event:
    """Return what is said of it when it has stopped."""
    return WorkloadDeleted(cause=0, workload=job_of(workload))


__all__ = ["Stopping", "gone", "job_of", "must_stop", "not_running", "stopping_at", "unanswered"]
