"""Stops that are awaited: of whom, who there is to confirm them, and whether anybody runs what was admitted.

The scheduler does not know who was told to stop for good, as its job is deleted or gets another workload:
such a one has its quota until it has stopped. Nor does it know of executors (`executors.Executors`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.model import ClusterQueue
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import replaced_slice
from sluice.events.base import Event, WorkloadKey
from sluice.events.codec import rfc3339
from sluice.events.slices import WorkloadDeleted, WorkloadFinished, WorkloadStopped
from sluice.replay.views.queues import queue_of

from .executors import Executors

SHOWN = 3
FEW = 8
"""Of so many it is tried who of them must stop."""


def job_of(workload: Workload) -> WorkloadKey:
    """Return the workload that speaks for its job: a variant's parent, else itself."""
    return workload.record.parent or workload.key


def told_to_stop(executors: Executors | None, workload: Workload) -> str:
    """Return why it is told to stop for good, though nobody has evicted it; "" if it is not."""
    if executors is None or workload.admitted_at is None or workload.evicted_at is not None:
        return ""
    return "" if workload.stopped else executors.told.get(job_of(workload), "")


def unanswered(state: SchedulerState, executors: Executors | None, leaving: Sequence[Workload]) -> str:
    """Return who of those that must stop has nobody to say that it has, "" if there is somebody for each.

    An attempt that nobody has begun is answered for by any executor. One that was taken is over when its
    executor is lost, at the latest.
    """
    if executors is None or executors.anybody():
        return ""
    left = [w.key for w in leaving if not _runs(w) and executors.claim(state, w) is None]
    if not left:
        return ""
    if len(left) == len(leaving):
        whose = "they have" if left[1:] else "it has"
    else:
        whose = ", ".join(left[:SHOWN]) + (f" and {len(left) - SHOWN} more" if left[SHOWN:] else "")
        whose += " have" if left[1:] else " has"
    return f"no executor is there to say that {whose} (see `sluice get agents`)"


def must_stop(
    state: SchedulerState, executors: Executors | None, leaving: Sequence[Workload], names: str
) -> str:
    """Return that those of these *names* must stop first, and what it takes."""
    missing = unanswered(state, executors, leaving)
    if missing:
        return f"an executor that comes: {names} must stop first, and {missing}"
    return f"nothing but time: {names} must stop first"


def _runs(workload: Workload) -> bool:
    """Has anybody said that its pods run? Maybe without a name."""
    return workload.pods_ready_at is not None or workload.pods_lost_at is not None


def not_running(state: SchedulerState, executors: Executors | None, workload: Workload) -> str:
    """Return that nobody has said yet that its pods run, and who has taken it; "" when somebody has."""
    if _runs(workload):
        return ""
    claim = executors.claim(state, workload) if executors is not None else None
    if executors is not None and claim is not None:
        away = "" if executors.there(claim.executor) else " (which nobody has seen, or is lost)"
        since = f" at {rfc3339(claim.since)}" if claim.since is not None else ""
        return f'Executor "{claim.executor}"{away} took it{since}, and has not said yet that its pods run.'
    if executors is not None and not executors.anybody():
        return "An executor has to take it, and none is there (see `sluice get agents`)."
    kind = _kind(state, workload)
    if executors is not None and kind and (said := executors.none_runs(kind)):
        return f"An executor has to take it, and {said}."
    return "An executor has to take it, and none has said yet that its pods run (see `sluice get agents`)."


def _kind(state: SchedulerState, workload: Workload) -> str:
    """Return the kind of the workload's job, "" if that is not known."""
    job = state.world.workloads.get(job_of(workload), workload).record.job
    return "" if job is None else job.kind


def gone(workload: Workload) -> Event:
    """Return what is said of it when it has stopped."""
    return WorkloadDeleted(cause=0, workload=job_of(workload))


def queues_of_tree(state: SchedulerState, cq: ClusterQueue) -> list[ClusterQueue]:
    """Return the ClusterQueues of its cohort tree, by name."""
    root = cq.node.root()
    return [q for _, q in sorted(state.world.cluster_queues.items()) if q.node.root() is root]


@dataclass(frozen=True)
class Leavers:
    """Those in a workload's tree who must stop, and have not yet."""

    state: SchedulerState
    executors: Executors | None
    holders: tuple[Workload, ...]
    replaced: WorkloadKey | None = None
    """The slice that the workload is to replace: its job has stopped as a whole when that one has (WS6)."""

    def events(self) -> list[Event]:
        """Return what is said of them when they have stopped."""
        found: list[Event] = []
        for holder in self.holders:
            if told_to_stop(self.executors, holder):
                found.append(gone(holder))
                continue
            found.append(WorkloadStopped(cause=0, workload=holder.key))
            if holder.key == self.replaced:
                found.append(WorkloadFinished(cause=0, workload=holder.key))
        return found

    def names(self) -> str:
        rest = len(self.holders) - SHOWN
        return ", ".join(holder.key for holder in self.holders[:SHOWN]) + f" and {rest} more" * (rest > 0)

    def words(self) -> str:
        """Return that they must stop, and what that takes, to be put behind something else."""
        missing = unanswered(self.state, self.executors, self.holders)
        return f"{self.names()} must stop" + f", and {missing}" * bool(missing)

    def alone(self) -> str:
        """Return that it takes nothing but that."""
        return must_stop(self.state, self.executors, self.holders, self.names())

    def without(self, holder: Workload) -> "Leavers":
        return replace(self, holders=tuple(other for other in self.holders if other is not holder))

    def each(self) -> "Iterator[Leavers]":
        """Yield every one of them by itself; no one of many."""
        if 1 < len(self.holders) <= FEW:
            yield from (replace(self, holders=(holder,)) for holder in self.holders)


def leavers(state: SchedulerState, workload: Workload, executors: Executors | None) -> Leavers:
    """Return who must stop and has not stopped yet, in the tree of the queue that the workload is for."""
    cq = state.world.cluster_queues.get(queue_of(state, workload))
    holders = () if cq is None else (w for q in queues_of_tree(state, cq) for w in q.workloads.values())
    leaving = (w for w in holders if w.evicted_at is not None or told_to_stop(executors, w))
    return Leavers(state, executors, tuple(w for w in leaving if not w.stopped), workload.record.replaces)


def kept_slice(state: SchedulerState, workload: Workload) -> Workload | None:
    """Return the slice that has quota, and whose place the workload is to take; None if it is to stop."""
    old = replaced_slice(state.world, workload)
    return old if old is not None and old.evicted_at is None else None
