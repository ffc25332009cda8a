"""Invariants of jobs that are submitted again or resized, as the slice-aggregator saw it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from sluice.api import labels
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.intake import Inbound
from sluice.core.slices.records import fits_update
from sluice.core.slices.resize import is_elastic, of_lineage
from sluice.core.slices.state import Job, State, Todo
from sluice.core.slices.submission import Submission, template_digest
from sluice.core.workload.charges import counts
from sluice.core.workload.reasons import NO_MATCHING_WORKLOAD
from sluice.events import scheduler, slices, variants
from sluice.events.base import JobKey, PodSet, WorkloadKey

from .observer import Observer, hears


@dataclass(slots=True)
class Kept:
    """A reservation that waits for its checks, for the workload as it is."""

    job: JobKey
    uid: str
    record: slices.WorkloadRecord
    manifest: bytes | Inbound


class KeptReservationObserver(Observer):
    """Quota that was reserved, and what checks have approved, is not lost for an edit of neither.

    Not for one either that the scheduler had heard of when it reserved the quota.
    """

    name = "reservation-kept"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.waiting: dict[WorkloadKey, Kept] = {}
        self.changes: dict[WorkloadKey, int] = {}
        """How often its pods were changed in place."""

    @hears
    def _reserved(self, state: State, event: scheduler.QuotaReserved | variants.ParentAdmitted) -> None:
        job = state.by_workload.get(event.workload)
        if job is None or job.record.key != event.workload:
            return
        if job.todo is not Todo.RECREATE or self._is_for(state, job, event):
            self.waiting[event.workload] = Kept(job.key, job.uid, job.record, _manifest(state, job))

    def _is_for(
        self, state: State, job: Job, event: scheduler.QuotaReserved | variants.ParentAdmitted
    ) -> bool:
        """Is the quota for what the job asks for now, as far as the slice-aggregator knows?"""
        if state.limits_used or event.observed_generation != self.changes.get(event.workload, 0):
            return False
        queue = state.cluster_queues.get(f"{job.record.namespace}/{job.record.queue_name}")
        return event.cluster_queue == queue and counts(event.pod_sets) == counts(job.record.pod_sets)

    @hears
    def _over(
        self,
        _: State,
        event: slices.JobResumed
        | scheduler.Evicted
        | scheduler.QuotaReleased
        | variants.ParentEvicted
        | variants.ParentReleased
        | slices.WorkloadFinished
        | scheduler.WorkloadSliceWithdrawn,
    ) -> None:
        self.waiting.pop(event.workload, None)

    @hears
    def _replaced(self, _: State, event: scheduler.WorkloadSliceReplaced) -> None:
        self.waiting.pop(event.workload, None)
        self.waiting.pop(event.by, None)

    @hears
    def _updated(self, state: State, event: slices.WorkloadUpdated) -> None:
        if event.pod_sets is not None:
            self.changes[event.workload] = self.changes.get(event.workload, 0) + 1
        kept, job = self.waiting.get(event.workload), state.by_workload.get(event.workload)
        if kept is not None and job is not None and job.record.key == event.workload:
            kept.record, kept.manifest = job.record, _manifest(state, job)

    @hears
    def _deleted(self, state: State, event: slices.WorkloadDeleted) -> Iterator[str]:
        kept = self.waiting.pop(event.workload, None)
        self.changes.pop(event.workload, None)
        job = state.jobs.get(kept.job) if kept is not None else None
        if kept is None or job is None or job.uid != kept.uid:
            return
        if _template(kept.manifest) != _template(_manifest(state, job)):
            return
        old, new = kept.record, job.record
        if old.annotations.get(labels.ELASTIC_JOB) == "true" and not is_elastic(state, old):
            # With the gate off, nobody withdraws its growth: the job is exchanged as a whole.
            return
        shortened = old.maximum_execution_time_s is not None and new.maximum_execution_time_s is None
        if not shortened and _reserved_for(old) == _reserved_for(new):
            yield f"{old.key} had quota and is exchanged for {new.key}, which asks for the same"


def _reserved_for(record: slices.WorkloadRecord) -> bytes:
    """Return what of a workload quota is reserved for; as bytes, since what was read has lists for tuples."""
    constraints = (record.cannot_preempt, record.cannot_borrow, record.allowed_flavors)
    return msgspec.json.encode((record.queue_name, record.pod_sets, record.preemption_gates, constraints))


def _manifest(state: State, job: Job) -> bytes | Inbound:
    """Return the job's manifest in force, or the digest of its pods, if the state has looked into that."""
    found = state.unread.get(job.key)
    return job.template if found is None else found[0]


def _template(manifest: bytes | Inbound) -> bytes:
    """Return the digest of its pods."""
    if isinstance(manifest, bytes):
        return manifest
    return template_digest(manifest.data) if isinstance(manifest.data, Submission) else b""


class KeptWorkloadObserver(Observer):
    """A job that stops keeps its workload, so what holds it back and its place, until that has no quota.

    Only one that was stopped for another workload gets that, and one whose manifest now says what a workload
    cannot be changed to.
    """

    name = "workload-kept"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.leaving: dict[WorkloadKey, tuple[JobKey, str, slices.WorkloadRecord]] = {}
        """Workload that is to give its quota up -> its job, which one of that name, and what it is."""
        self.exchanged: set[JobKey] = set()
        """Told to stop for another workload, or about to be exchanged since before it was evicted."""

    @hears
    def _evicted(
        self, state: State, event: scheduler.Evicted | variants.ParentEvicted | slices.WorkloadStopped
    ) -> None:
        job = state.by_workload.get(event.workload)
        if job is None or job.record.key != event.workload or not job.reserved:
            return
        self.leaving[event.workload] = (job.key, job.uid, job.record)
        if job.todo is Todo.RECREATE:
            self.exchanged.add(job.key)

    @hears
    def _suspended(self, _: State, event: slices.JobSuspended) -> None:
        if event.reason == NO_MATCHING_WORKLOAD:
            self.exchanged.add(event.job)

    @hears
    def _over(
        self,
        _: State,
        event: scheduler.QuotaReleased
        | variants.ParentReleased
        | scheduler.QuotaReserved
        | variants.ParentAdmitted
        | slices.WorkloadFinished,
    ) -> None:
        self.leaving.pop(event.workload, None)

    @hears
    def _replaced(self, _: State, event: scheduler.WorkloadSliceReplaced) -> None:
        self.leaving.pop(event.workload, None)

    @hears
    def _resumed(self, _: State, event: slices.JobResumed) -> None:
        self.exchanged.discard(event.job)

    @hears
    def _deleted(self, state: State, event: slices.WorkloadDeleted) -> Iterator[str]:
        found = self.leaving.pop(event.workload, None)
        if found is None:
            return
        job, uid, record = found
        now = state.jobs.get(job)
        if now is None or now.uid != uid or job in self.exchanged:
            return
        if fits_update(record, of_lineage(now.record, record)):
            yield f"{event.workload} has quota still and is exchanged for {now.record.key}"

    @hears
    def _updated(self, state: State, event: slices.WorkloadUpdated) -> None:
        found, job = self.leaving.get(event.workload), state.by_workload.get(event.workload)
        if found is not None and job is not None and job.record.key == event.workload:
            self.leaving[event.workload] = (*found[:2], job.record)


class CompletionsObserver(Observer):
    """No workload asks for more pods than must complete, whatever size its job is to have."""

    name = "completions"
    decider = SliceAggregator

    @hears
    def _created(self, state: State, event: slices.WorkloadCreated) -> Iterable[str]:
        return _too_many(state, event.workload.key, event.workload.pod_sets)

    @hears
    def _updated(self, state: State, event: slices.WorkloadUpdated) -> Iterable[str]:
        return () if event.pod_sets is None else _too_many(state, event.workload, event.pod_sets)


def _too_many(state: State, key: WorkloadKey, pod_sets: Sequence[PodSet]) -> Iterator[str]:
    job = state.by_workload.get(key)
    if job is None or job.key in state.unread:
        return  # it was just made of its manifest, which nobody has looked into since
    for pods in pod_sets:
        most = job.most.get(pods.name)
        if most is not None and pods.count > most:
            yield f"{key} asks for {pods.count} pods of {pods.name}, and {most} must complete"


class PriorityObserver(Observer):
    """A job's priority changes only with the class that it names, whatever becomes of that one's value."""

    name = "priority-kept"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.named: dict[str, tuple[str, int]] = {}
        """Uid of a job -> the class that it names, and the priority that it has had since."""

    @hears
    def _created(self, _: State, event: slices.WorkloadCreated) -> Iterator[str]:
        record = event.workload
        if record.job is not None:
            yield from self._has(record.key, record.job.uid, record.priority_class, record.priority)

    @hears
    def _updated(self, state: State, event: slices.WorkloadUpdated) -> Iterator[str]:
        job = state.by_workload.get(event.workload)
        if job is None or (event.priority is None and event.priority_class is None):
            return
        record = job.pending if job.pending is not None and job.pending.key == event.workload else job.record
        yield from self._has(event.workload, job.uid, record.priority_class, record.priority)

    def _has(self, key: WorkloadKey, job_uid: str, priority_class: str, value: int) -> Iterator[str]:
        before = self.named.get(job_uid)
        self.named[job_uid] = (priority_class, value)
        if before is not None and priority_class and before[0] == priority_class and before[1] != value:
            yield f"{key} has priority {value} instead of {before[1]}, its job names {priority_class} still"

    @hears
    def _over(self, state: State, event: slices.WorkloadDeleted | slices.WorkloadFinished) -> None:
        if event.workload not in state.by_workload and len(self.named) > 2 * len(state.jobs) + 1_000:
            live = {job.uid: None for job in state.jobs.values()}
            self.named = {uid: had for uid, had in self.named.items() if uid in live}


EDIT_OBSERVERS: tuple[type[Observer], ...] = (
    KeptReservationObserver,
    KeptWorkloadObserver,
    CompletionsObserver,
    PriorityObserver,
)
