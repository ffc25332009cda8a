"""Fold of a worker's log for a manager's jobs. No input or output.

Jobs of a manager are known in the worker by the end of their names, which is the manager's own.
"""

from collections.abc import Iterator, Sequence

import msgspec

from sluice.api import kueue
from sluice.api.errors import UNREADABLE, FieldError
from sluice.api.features import ELASTIC_JOBS_VIA_WORKLOAD_SLICES, enabled
from sluice.core.workload.charges import counts
from sluice.events import checks, scheduler, slices
from sluice.events.base import Event, JobKey, Micros, WorkloadKey
from sluice.events.codec import decode_commit
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.log.contract import Entry
from sluice.protocol.cells import Fact, FactKind, Order, end_of_names, hold_controller
from sluice.protocol.subjects import job_of


class Holds:
    """Which local queues of a worker hold what this manager offers, and by which check."""

    def __init__(self, manager: str) -> None:
        self._controller = hold_controller(manager)
        self._checks: dict[str, None] = {}
        self._queues: dict[str, str] = {}
        self._rules: dict[str, dict[str, bool]] = {}
        """ClusterQueue -> its checks, and whether each is for all flavors."""
        self.resizes = True
        """Elastic jobs change their size there without being stopped."""

    def fold(self, event: Event) -> None:
        match event:
            case ObjectApplied(kind="AdmissionCheck"):
                spec = msgspec.json.decode(event.object, type=kueue.AdmissionCheck).spec
                if spec.controller_name == self._controller:
                    self._checks[event.name] = None
            case ObjectApplied(kind="ClusterQueue"):
                strategy = msgspec.json.decode(
                    event.object, type=kueue.ClusterQueue
                ).spec.admission_checks_strategy
                rules = strategy.admission_checks if strategy is not None else []
                self._rules[event.name] = {rule.name: not rule.on_flavors for rule in rules}
            case ObjectApplied(kind="LocalQueue"):
                queue = msgspec.json.decode(event.object, type=kueue.LocalQueue).spec.cluster_queue
                self._queues[f"{event.namespace}/{event.name}"] = queue
            case ObjectApplied(kind="Configuration"):
                gates = msgspec.json.decode(event.object, type=kueue.Configuration).spec.feature_gates
                self.resizes = enabled(gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES)
            case ObjectDeleted(kind="Configuration"):
                self.resizes = True
            case ObjectDeleted(kind="AdmissionCheck"):
                self._checks.pop(event.name, None)
            case ObjectDeleted(kind="ClusterQueue"):
                self._rules.pop(event.name, None)
            case ObjectDeleted(kind="LocalQueue"):
                self._queues.pop(f"{event.namespace}/{event.name}", None)
            case _:
                return

    def check_of(self, queue: str) -> str:
        """Return the check that holds jobs of a local queue, `namespace/name`; "" if nothing does."""
        rules = self._rules.get(self._queues.get(queue, ""), {})
        return next((name for name, all_flavors in rules.items() if all_flavors and name in self._checks), "")

    def first(self) -> str:
        """Return a hold of this manager's, "" if there is none."""
        return next(iter(self._checks), "")

    def first_of(self, names: Sequence[str]) -> str:
        """Return the one of these checks that is a hold of this manager's, "" if none is."""
        return next((name for name in names if name in self._checks), "")


class RemoteFold:
    """Facts out of the commits of a worker, one after the other."""

    def __init__(self, manager: str) -> None:
        self._end = end_of_names(manager)
        self.holds = Holds(manager)
        self._job_of: dict[WorkloadKey, JobKey] = {}
        """Of workloads that speak for an offer's job, or are to; not of slices that were replaced."""
        self._main: dict[JobKey, WorkloadKey] = {}
        """Offer -> the workload that speaks for it."""
        self._uids: dict[WorkloadKey, str] = {}
        self._sizes: dict[WorkloadKey, dict[str, int]] = {}
        """Of slices by which jobs are to grow."""
        self.check_of: dict[JobKey, str] = {}
        """Offer -> the check that holds it, as the worker has asked for it."""
        self._edits: dict[int, tuple[JobKey, int]] = {}
        """Sequences of messages by which a job was edited -> offer, edition."""

    def name_there(self, offer: JobKey) -> JobKey:
        """Return the key of an offer's job in the worker."""
        return JobKey(offer + self._end)

    def _offer(self, job: JobKey | None) -> JobKey | None:
        """Return the offer that a job of the worker is; None of those that are not this manager's."""
        return JobKey(job.removesuffix(self._end)) if job is not None and job.endswith(self._end) else None

    def know(self, orders: Sequence[Order]) -> None:
        """Learn of workloads that were made before the place in the log where this began."""
        for order in orders:
            if order.remote:
                self._job_of.setdefault(order.remote, order.job)
                self._main.setdefault(order.job, order.remote)
            if order.growth:
                self._job_of.setdefault(order.growth, order.job)
                self._uids.setdefault(order.growth, order.growth_uid)

    def sent(self, seq: int, offer: JobKey, edition: int) -> None:
        """Note which message in the worker's log asks for an edition of an offer's job."""
        self._edits[seq] = (offer, edition)

    def facts(self, entries: Sequence[Entry]) -> Iterator[Fact]:
        """Yield what these entries say of the manager's jobs."""
        for entry in entries:
            for step in decode_commit(entry.payload, entry.suffix, entry.seq).steps:
                for event in step.events:
                    yield from self._facts(event, entry.seq, step.at)
                    yield from self._answered(event, entry.seq, step.at)

    def _answered(self, event: Event, seq: int, at: Micros) -> Iterator[Fact]:
        """Yield which editions of jobs this event answers."""
        if not self._edits:
            return
        message = ""
        match event:
            case slices.InputsIgnored(seqs=causes):
                pass
            case slices.Rejected(cause=cause, errors=errors):
                causes, message = (cause,), errors_text(errors) or "refused"
            case slices.WorkloadUpdated(cause=cause) | slices.WorkloadCreated(cause=cause):
                causes = (cause,)
            case slices.JobSuspended(cause=cause):
                causes = (cause,)
            case _:
                return
        for cause in causes:
            if (found := self._edits.pop(cause, None)) is not None:
                offer, edition = found
                yield Fact(kind="Edited", job=offer, seq=seq, at=at, attempt=edition, message=message)

    def _facts(self, event: Event, seq: int, at: Micros) -> Iterator[Fact]:
        match event:
            case ObjectApplied() | ObjectDeleted():
                try:
                    self.holds.fold(event)
                except UNREADABLE:
                    return
            case slices.WorkloadCreated(workload=record):
                yield from self._created(record, seq, at)
            case slices.Rejected(subject=subject, event_type=kind):
                offer = self._offer(job_of(subject))
                if offer is None or event.cause in self._edits:
                    return
                if kind == "JobDeleted" or (kind == "JobSubmitted" and offer not in self._main):
                    what = "Refused" if kind == "JobSubmitted" else "Gone"
                    text = errors_text(event.errors)
                    yield Fact(kind=what, job=offer, seq=seq, at=at, message=text)  # type: ignore[arg-type]
            case scheduler.WorkloadsParked() | scheduler.PendingReasonChanged():
                for key in event.workloads:
                    if (offer := self._job_of.get(key)) is not None:
                        grows = self._main.get(offer) != key
                        yield Fact(
                            kind="GrowthNoRoom" if grows else "NoRoom",
                            job=offer,
                            seq=seq,
                            at=at,
                            workload=key if grows else WorkloadKey(""),
                            message=event.message[:512],
                        )
            case _:
                key = getattr(event, "workload", WorkloadKey(""))
                offer = self._job_of.get(key)
                if offer is None:
                    return
                if self._main.get(offer) == key:
                    yield from self._of_workload(event, offer, seq, at)
                else:
                    yield from self._of_growth(event, key, offer, seq, at)

    def _created(self, record: slices.WorkloadRecord, seq: int, at: Micros) -> Iterator[Fact]:
        offer = self._offer(record.job.key if record.job is not None else None)
        if offer is None:
            return
        key, pods = record.key, counts(record.pod_sets)
        self._job_of[key], self._uids[key] = offer, record.uid
        grows = record.replaces is not None and record.replaces == self._main.get(offer)
        if grows:
            self._sizes[key] = pods
        else:
            self._main[offer] = key
        kind: FactKind = "Growing" if grows else "Present"
        yield Fact(kind=kind, job=offer, seq=seq, at=at, workload=key, uid=record.uid, pods=pods)

    def _of_workload(self, event: Event, offer: JobKey, seq: int, at: Micros) -> Iterator[Fact]:
        match event:
            case checks.ChecksRequested(attempt=attempt, checks=names):
                if hold := self.holds.first_of(names):
                    self.check_of[offer] = hold
                    yield Fact(kind="Held", job=offer, seq=seq, at=at, attempt=attempt)
            case checks.ChecksWithdrawn(attempt=attempt, reason="Evicted" | "QuotaReleased"):
                yield Fact(kind="Freed", job=offer, seq=seq, at=at, attempt=attempt)
            case slices.JobResumed():
                yield Fact(kind="Running", job=offer, seq=seq, at=at)
            case slices.WorkloadPodsReady(ready=True):
                yield Fact(kind="Ready", job=offer, seq=seq, at=at)
            case slices.WorkloadStopped(reason=reason, message=message) if reason:
                yield Fact(kind="Stopped", job=offer, seq=seq, at=at, message=message or reason)
            case slices.WorkloadUpdated(workload=key, pod_sets=pod_sets) if pod_sets is not None:
                yield Fact(kind="Resized", job=offer, seq=seq, at=at, workload=key, pods=counts(pod_sets))
            case slices.JobResized(workload=key, pods=pods):
                yield Fact(kind="Resized", job=offer, seq=seq, at=at, workload=key, pods=pods)
            case scheduler.WorkloadSliceReplaced(by=by):
                self._succeed(event.workload, by, offer)
                uid, pods = self._uids.get(by, ""), self._sizes.pop(by, {})
                yield Fact(kind="Resized", job=offer, seq=seq, at=at, workload=by, uid=uid, pods=pods)
            case slices.WorkloadFinished(reason="WorkloadSliceReplaced", workload=key):
                # It has lost its quota, of which was told; the slice that was to replace it is all of it now.
                by = next((k for k, job in self._job_of.items() if job == offer and k != key), key)
                self._succeed(key, by, offer)
            case slices.WorkloadFinished(reason=reason, message=message):
                done = reason == "Succeeded"
                yield Fact(kind="Finished", job=offer, seq=seq, at=at, success=done, message=message[:512])
            case slices.WorkloadDeleted(workload=key):
                self._forget(key)
                self._main.pop(offer, None)
                self._edits = {seq: found for seq, found in self._edits.items() if found[0] != offer}
                self.check_of.pop(offer, None)
                yield Fact(kind="Gone", job=offer, seq=seq, at=at)
            case _:
                return

    def _succeed(self, old: WorkloadKey, new: WorkloadKey, offer: JobKey) -> None:
        """From here on *new* speaks for the job; what becomes of *old* is of no concern any more."""
        if old != new:
            self._forget(old)
        self._job_of[new], self._main[offer] = offer, new

    def _forget(self, key: WorkloadKey) -> None:
        for known in (self._job_of, self._uids, self._sizes):
            known.pop(key, None)

    def _of_growth(
        self, event: Event, key: WorkloadKey, offer: JobKey, seq: int, at: Micros
    ) -> Iterator[Fact]:
        """Yield what an event says of a slice by which an offer's job is to grow."""

        def fact(kind: FactKind, *, attempt: int = 0, pods: dict[str, int] | None = None) -> Fact:
            return Fact(kind=kind, job=offer, seq=seq, at=at, workload=key, attempt=attempt, pods=pods or {})

        match event:
            case checks.ChecksRequested(attempt=attempt, checks=names) if self.holds.first_of(names):
                yield fact("GrowthHeld", attempt=attempt)
            case checks.ChecksWithdrawn(attempt=attempt, reason="Evicted" | "QuotaReleased"):
                yield fact("GrowthFreed", attempt=attempt)
            case slices.WorkloadUpdated(pod_sets=pod_sets) if pod_sets is not None:
                self._sizes[key] = counts(pod_sets)
                yield fact("Growing", pods=self._sizes[key])
            case slices.WorkloadDeleted() | slices.WorkloadFinished():
                self._forget(key)
                yield fact("GrowthGone")
            case _:
                return


def errors_text(errors: Sequence[FieldError]) -> str:
    """Return errors for people, cut."""
    return "; ".join(map(str, errors))[:512]
