"""What must hold when jobs are submitted again or resized, as the slice-aggregator saw it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from sluice.api import labels
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.intake import Inbound
from sluice.core.slices.resize import is_elastic
from sluice.core.slices.state import Job, State, Todo
from sluice.core.slices.submission import Submission, template_digest
from sluice.events.base import JobKey, PodSet, WorkloadKey
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    QuotaReleased,
    QuotaReserved,
    WorkloadSliceReplaced,
    WorkloadSliceWithdrawn,
)
from sluice.events.slices import (
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadRecord,
    WorkloadUpdated,
)

from .observer import Observer, hears


@dataclass(slots=True)
class Kept:
    """A reservation that waits for its checks, for the workload as it is."""

    job: JobKey
    uid: str
    record: WorkloadRecord
    manifest: bytes | Inbound


class KeptReservationObserver(Observer):
    """Quota that was reserved, and what checks have approved, is not lost for an edit of neither."""

    name = "reservation-kept"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.waiting: dict[WorkloadKey, Kept] = {}

    @hears
    def _reserved(self, state: State, event: QuotaReserved) -> None:
        job = state.by_workload.get(event.workload)
        if job is not None and job.record.key == event.workload and job.todo is not Todo.RECREATE:
            self.waiting[event.workload] = Kept(job.key, job.uid, job.record, _manifest(state, job))

    @hears
    def _over(
        self, _: State, event: Admitted | Evicted | QuotaReleased | WorkloadFinished | WorkloadSliceWithdrawn
    ) -> None:
        self.waiting.pop(event.workload, None)

    @hears
    def _replaced(self, _: State, event: WorkloadSliceReplaced) -> None:
        self.waiting.pop(event.workload, None)
        self.waiting.pop(event.by, None)

    @hears
    def _updated(self, state: State, event: WorkloadUpdated) -> None:
        kept, job = self.waiting.get(event.workload), state.by_workload.get(event.workload)
        if kept is not None and job is not None and job.record.key == event.workload:
            kept.record, kept.manifest = job.record, _manifest(state, job)

    @hears
    def _deleted(self, state: State, event: WorkloadDeleted) -> Iterator[str]:
        kept = self.waiting.pop(event.workload, None)
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


def _reserved_for(record: WorkloadRecord) -> bytes:
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


class CompletionsObserver(Observer):
    """No workload asks for more pods than must complete, whatever size its job is to have."""

    name = "completions"
    decider = SliceAggregator

    @hears
    def _created(self, state: State, event: WorkloadCreated) -> Iterable[str]:
        return _too_many(state, event.workload.key, event.workload.pod_sets)

    @hears
    def _updated(self, state: State, event: WorkloadUpdated) -> Iterable[str]:
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
    def _created(self, _: State, event: WorkloadCreated) -> Iterator[str]:
        record = event.workload
        if record.job is not None:
            yield from self._has(record.key, record.job.uid, record.priority_class, record.priority)

    @hears
    def _updated(self, state: State, event: WorkloadUpdated) -> Iterator[str]:
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
    def _over(self, state: State, event: WorkloadDeleted | WorkloadFinished) -> None:
        if event.workload not in state.by_workload and len(self.named) > 2 * len(state.jobs) + 1_000:
            live = {job.uid: None for job in state.jobs.values()}
            self.named = {uid: had for uid, had in self.named.items() if uid in live}


EDIT_OBSERVERS: tuple[type[Observer], ...] = (KeptReservationObserver, CompletionsObserver, PriorityObserver)
