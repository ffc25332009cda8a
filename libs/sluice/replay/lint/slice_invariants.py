"""Invariants of workload slices, as the deciders saw them. See `invariants`."""

from collections.abc import Iterable, Iterator, Mapping

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.dispatch import dispatch_entry
from sluice.core.slices.resize import out_of
from sluice.core.slices.state import State
from sluice.core.workload.charges import asks_for_more, counts, given_back, gives_back
from sluice.core.workload.reasons import JOB_DELETED
from sluice.core.world.workload_slices import grants_more, replaced_slice
from sluice.events.base import JobKey, WorkloadKey
from sluice.events.scheduler import (
    Admitted,
    PendingPreemptionsIssued,
    PreemptionIssued,
    QuotaReleased,
    QuotaReserved,
    WorkloadSliceReplaced,
    WorkloadSliceWithdrawn,
)
from sluice.events.slices import (
    CompletionsUpdated,
    JobClaimed,
    JobResized,
    JobResumed,
    JobSuspended,
    ReclaimablePodsUpdated,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadStopped,
    WorkloadUpdated,
)
from sluice.events.variants import ParentAdmitted, ParentReleased

from .observer import Observer, hears


class GrowthObserver(Observer):
    """A slice takes the place of another one for more pods only, asked for and granted; growth that was taken
    back ends (WS3).
    """

    name = "growth"
    decider = Scheduler

    def __init__(self) -> None:
        self.withdrawn: dict[WorkloadKey, None] = {}

    @hears
    def _admitted(self, state: SchedulerState, event: Admitted) -> Iterator[str]:
        new = state.world.workloads.get(event.workload)
        old = new and new.record.replaces and state.world.workloads.get(new.record.replaces)
        if not new or not old or old.assignment is None or old.evicted_at is not None or old.stopped:
            return
        if not asks_for_more(new.record.pod_sets, old.record.pod_sets):
            yield f"{new.key} takes the place of {old.key} and asks for no more pods than that has"
        elif new.assignment is not None and not grants_more(new, old):
            yield f"{new.key} takes the place of {old.key} and has quota for no more pods than that has"

    @hears
    def _withdrawn(self, _: SchedulerState, event: WorkloadSliceWithdrawn) -> None:
        self.withdrawn[event.workload] = None

    @hears
    def _reserved(self, _: SchedulerState, event: QuotaReserved) -> Iterator[str]:
        if event.workload in self.withdrawn:
            yield f"{event.workload} has quota, but it was withdrawn"

    @hears
    def _gone(self, _: SchedulerState, event: WorkloadFinished | WorkloadDeleted) -> None:
        self.withdrawn.pop(event.workload, None)


class ClaimObserver(Observer):
    """An attempt is whose claim is the first in the log: no other executor takes it over."""

    name = "first-claim"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.owners: dict[JobKey, tuple[int, str]] = {}
        """Job -> an attempt, and who has taken it."""

    @hears
    def _claimed(self, _: State, event: JobClaimed) -> Iterator[str]:
        attempt, owner = self.owners.setdefault(event.job, (event.attempt, event.executor))
        if attempt == event.attempt and owner != event.executor:
            yield f"attempt {attempt} of {event.job} was taken by {owner}, and then by {event.executor}"

    @hears
    def _began(self, _: State, event: JobResumed) -> None:
        self.owners.pop(event.job, None)

    @hears
    def _finished(self, state: State, event: WorkloadFinished) -> None:
        job = state.finished_workloads.get(event.workload)
        if job is not None:
            self.owners.pop(job, None)


class EndedPodsObserver(Observer):
    """Quota is given back only for pods that are sure not to run: fewer, when a slice has shrunk (SC7, WS7).

    When a slice shrinks, executors end its highest indexes, and nobody knows which pods had ended by
    themselves. So of the pods given back before, as many are taken to be among those that go as can be.
    """

    name = "ended-pods"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.sure: dict[WorkloadKey, dict[str, int]] = {}
        """Workload -> pod set -> how many of its pods have ended; only workloads of which some have."""
        self.sizes: dict[WorkloadKey, dict[str, int]] = {}
        """Workload -> pod set -> out of how many."""
        self.due: dict[WorkloadKey, bool] = {}
        """What this step is about; whether it shrinks: then what it says of ended pods is no report."""

    def settled(self, state: State) -> Iterator[str]:
        for key in self.due:
            job, sure = state.by_workload.get(key), self.sure.get(key)
            if job is None or sure is None or job.record.key != key or not job.reserved:
                continue
            ended = given_back(state.config, job.reclaimable)
            for name, size in counts(job.record.pod_sets).items():
                most, said = sure.get(name, 0), ended.get(name, 0)
                if said > most:
                    charged = max(0, size - said)
                    yield f"{key} is charged for {charged} pods of {name}, and {size - most} may run"
        self.due.clear()

    @hears
    def _reported(self, state: State, event: ReclaimablePodsUpdated) -> None:
        job = state.by_workload.get(event.workload)
        if job is not None and job.pending is not None and job.pending.key == event.workload:
            # Not out of so many, but by what is left to do: `UselessGrowthObserver`.
            self.sure[event.workload] = dict(event.pods)
            self.sizes[event.workload] = counts(job.pending.pod_sets)
            return
        if job is not None and not self.due.get(event.workload):
            self.sure[event.workload] = dict(event.pods)
            self.sizes[event.workload] = counts(job.record.pod_sets)
        self.due.setdefault(event.workload, False)

    @hears
    def _resized(self, _: State, event: WorkloadUpdated) -> None:
        sure = self.sure.get(event.workload)
        if sure is not None and event.pod_sets is not None:
            had, now = self.sizes[event.workload], counts(event.pod_sets)
            self.sure[event.workload] = {
                name: out_of(n, had.get(name, 0), now.get(name, 0)) for name, n in sure.items()
            }
            self.sizes[event.workload] = now
            self.due[event.workload] = True

    @hears
    def _began(self, state: State, event: JobResumed) -> None:
        """With a new attempt all pods run again."""
        job = state.jobs.get(event.job)
        if job is not None:
            self.sure.pop(job.record.key, None)
            self.sizes.pop(job.record.key, None)

    @hears
    def _gone(self, _: State, event: WorkloadSliceReplaced | WorkloadFinished | WorkloadDeleted) -> None:
        self.sure.pop(event.workload, None)
        self.sizes.pop(event.workload, None)


class UselessGrowthObserver(Observer):
    """Nobody is preempted, and no quota reserved, for pods of a growth that can never run (WS3).

    No completion is left for them, or their job is deleted. Both are about one life of a job: the next of its
    name, and the workload for which it was stopped, have everything to do.
    """

    name = "useless-growth"
    decider = Scheduler

    def __init__(self) -> None:
        self.remaining: dict[JobKey, Mapping[str, int]] = {}
        """Job -> pod set -> how many pods its attempt can still run."""
        self.deleted: set[JobKey] = set()
        """Told to stop for good."""

    @hears
    def _made(self, _: SchedulerState, event: WorkloadCreated) -> None:
        if event.workload.job is not None and event.workload.replaces is None:
            self.remaining.pop(event.workload.job.key, None)
            self.deleted.discard(event.workload.job.key)

    @hears
    def _suspended(self, _: SchedulerState, event: JobSuspended) -> None:
        if event.reason == JOB_DELETED:
            self.deleted.add(event.job)

    @hears
    def _told(self, _: SchedulerState, event: CompletionsUpdated) -> None:
        self.remaining[event.job] = event.remaining

    @hears
    def _began(self, _: SchedulerState, event: JobResumed) -> None:
        self.remaining.pop(event.job, None)

    @hears
    def _stopped(self, state: SchedulerState, event: WorkloadStopped) -> None:
        workload = state.world.workloads.get(event.workload)
        if workload is not None and workload.record.job is not None:
            self.remaining.pop(workload.record.job.key, None)

    @hears
    def _preempts(
        self, state: SchedulerState, event: PreemptionIssued | PendingPreemptionsIssued
    ) -> Iterable[str]:
        return self._judge(state, event.workload, "preempts") if event.victims else ()

    @hears
    def _reserved(self, state: SchedulerState, event: QuotaReserved) -> Iterable[str]:
        return self._judge(state, event.workload, "has quota")

    def _judge(self, state: SchedulerState, key: WorkloadKey, what: str) -> Iterator[str]:
        workload = state.world.workloads.get(key)
        if workload is None or workload.record.replaces is None or workload.record.job is None:
            return
        if replaced_slice(state.world, workload) is None:
            return
        if workload.record.job.key in self.deleted:
            yield f"{key} {what}, and its job is deleted"
        remaining = self.remaining.get(workload.record.job.key)
        if not remaining or not gives_back(state.world.config):
            return
        for name, count in counts(workload.record.pod_sets).items():
            needs, can_run = count - workload.reclaimable.get(name, 0), remaining.get(name, count)
            if needs > can_run:
                yield f"{key} {what} for {needs} pods of {name}, and {can_run} can still run"


class AskedAgainObserver(Observer):
    """Growth that a check has rejected is tried again when somebody asks for another size (WS6)."""

    name = "asked-again"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.due: dict[WorkloadKey, None] = {}

    @hears
    def _updated(self, _: State, event: WorkloadUpdated) -> None:
        if event.pod_sets is not None:
            self.due[event.workload] = None

    def settled(self, state: State) -> Iterator[str]:
        for key in self.due:
            job = state.by_workload.get(key)
            if job is None or job.pending is None or job.pending.key != key:
                continue
            grown = any(
                n > counts(job.record.pod_sets).get(name, n)
                for name, n in counts(job.pending.pod_sets).items()
            )
            if grown and job.record.active and not job.pending.active:
                yield f"{key} has another size, and is still switched off"
        self.due.clear()


class SliceObserver(Observer):
    """A job has at most one admitted workload and one that is to replace it (WS4)."""

    name = "two-slices"
    decider = Scheduler

    def __init__(self) -> None:
        self.live: dict[JobKey, dict[WorkloadKey, None]] = {}
        self.job_of: dict[WorkloadKey, JobKey] = {}
        self.due: dict[JobKey, None] = {}

    @hears
    def _created(self, _: SchedulerState, event: WorkloadCreated) -> None:
        record = event.workload
        if record.job is not None:
            self.live.setdefault(record.job.key, {})[record.key] = None
            self.job_of[record.key] = record.job.key
            self.due[record.job.key] = None

    @hears
    def _admitted(self, _: SchedulerState, event: Admitted) -> None:
        if (job := self.job_of.get(event.workload)) is not None:
            self.due[job] = None

    @hears
    def _gone(
        self, _: SchedulerState, event: WorkloadFinished | WorkloadDeleted | WorkloadSliceReplaced
    ) -> None:
        job = self.job_of.pop(event.workload, None)
        if job is not None:
            self.live[job].pop(event.workload, None)
            if not self.live[job]:
                del self.live[job]

    def settled(self, state: SchedulerState) -> Iterator[str]:
        # Between the events of one step the old slice and the new one may both be admitted.
        for job in self.due:
            slices = list(self.live.get(job, ()))
            if len(slices) > 2:
                yield f"{job} has {len(slices)} live workloads: {', '.join(slices)}"
            known = [state.world.workloads.get(key) for key in slices]
            admitted = [w.key for w in known if w is not None and w.admitted_at is not None]
            if len(admitted) > 1:
                yield f"{job} has {len(admitted)} admitted workloads: {', '.join(admitted)}"
        self.due.clear()


class UngatedObserver(Observer):
    """Never more pods may run than were granted, and none without a grant (WS7)."""

    name = "ungated"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.granted: dict[WorkloadKey, dict[str, int]] = {}
        self.before: set[WorkloadKey] = set()
        """What they were granted was said before the log begins."""
        self.due: dict[JobKey, None] = {}

    def begun(self, state: State) -> None:
        self.before = {
            record.key for job in state.jobs.values() for record in (job.record, job.pending) if record
        }

    @hears
    def _reserved(self, _: State, event: QuotaReserved | ParentAdmitted) -> None:
        self.before.discard(event.workload)
        self.granted[event.workload] = counts(event.pod_sets)

    @hears
    def _taken_back(
        self,
        _: State,
        event: QuotaReleased | ParentReleased | WorkloadFinished | WorkloadDeleted | WorkloadSliceReplaced,
    ) -> None:
        self.before.discard(event.workload)
        self.granted.pop(event.workload, None)

    @hears
    def _updated(self, state: State, event: WorkloadUpdated) -> None:
        granted = self.granted.get(event.workload)
        if granted is not None and event.pod_sets is not None:
            for name, count in counts(event.pod_sets).items():
                granted[name] = min(granted.get(name, 0), count)
            if (job := state.by_workload.get(event.workload)) is not None:
                self.due[job.key] = None

    @hears
    def _told(self, _: State, event: JobResumed | JobResized) -> None:
        self.due[event.job] = None

    def settled(self, state: State) -> Iterator[str]:
        for job in self.due:
            entry = dispatch_entry(state, job)
            if entry is None or entry.state != "Running" or entry.workload in self.before:
                continue
            granted = self.granted.get(entry.workload)
            if granted is None:
                yield f"{job} may run without quota for {entry.workload}"
                continue
            for pods in entry.pod_sets:
                if pods.ungated > granted.get(pods.name, 0):
                    most = granted.get(pods.name, 0)
                    yield f"{job} may run {pods.ungated} pods of {pods.name}, {most} were granted"
        self.due.clear()


SLICE_OBSERVERS: tuple[type[Observer], ...] = (
    SliceObserver,
    UngatedObserver,
    ClaimObserver,
    GrowthObserver,
    EndedPodsObserver,
    UselessGrowthObserver,
    AskedAgainObserver,
)
