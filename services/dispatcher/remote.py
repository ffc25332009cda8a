"""Fold of a worker's log for a manager's jobs. No input or output.

Jobs of a manager are known in the worker by the end of their names, which is the manager's own.
"""

from collections.abc import Iterator, Sequence

import msgspec

from sluice.api import kueue
from sluice.api.errors import UNREADABLE
from sluice.core.naming import short_hash
from sluice.events import checks, scheduler, slices
from sluice.events.base import Event, JobKey, Micros, WorkloadKey
from sluice.events.codec import decode_commit
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.log.contract import Entry
from sluice.protocol.cells import Fact, Order, hold_controller
from sluice.protocol.subjects import job_of

READS = ("slices", "checks", "scheduler", "config")


class Holds:
    """Which local queues of a worker hold what this manager offers, and by which check."""

    def __init__(self, manager: str) -> None:
        self._controller = hold_controller(manager)
        self._checks: dict[str, None] = {}
        self._queues: dict[str, str] = {}
        self._rules: dict[str, dict[str, bool]] = {}
        """ClusterQueue -> its checks, and whether each is for all flavors."""

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
        self._end = f"-{short_hash([manager])}"
        self.holds = Holds(manager)
        self._job_of: dict[WorkloadKey, JobKey] = {}
        self.check_of: dict[JobKey, str] = {}
        """Offer -> the check that holds it, as the worker has asked for it."""

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

    def facts(self, entries: Sequence[Entry]) -> Iterator[Fact]:
        """Yield what these entries say of the manager's jobs."""
        for entry in entries:
            for step in decode_commit(entry.payload, entry.suffix, entry.seq).steps:
                for event in step.events:
                    yield from self._facts(event, entry.seq, step.at)

    def _facts(self, event: Event, seq: int, at: Micros) -> Iterator[Fact]:
        match event:
            case ObjectApplied() | ObjectDeleted():
                try:
                    self.holds.fold(event)
                except UNREADABLE:
                    return
            case slices.WorkloadCreated(workload=record):
                offer = self._offer(record.job.key if record.job is not None else None)
                if offer is not None:
                    self._job_of[record.key] = offer
                    yield Fact(kind="Present", job=offer, seq=seq, at=at, workload=record.key, uid=record.uid)
            case slices.Rejected(subject=subject, event_type=kind):
                offer = self._offer(job_of(subject))
                if offer is not None and kind in ("JobSubmitted", "JobDeleted"):
                    what = "Refused" if kind == "JobSubmitted" else "Gone"
                    text = "; ".join(f"{error.field}: {error.detail}" for error in event.errors)[:512]
                    yield Fact(kind=what, job=offer, seq=seq, at=at, message=text)  # type: ignore[arg-type]
            case scheduler.WorkloadsParked() | scheduler.PendingReasonChanged():
                for key in event.workloads:
                    if (offer := self._job_of.get(key)) is not None:
                        yield Fact(kind="NoRoom", job=offer, seq=seq, at=at, message=event.message[:512])
            case _:
                offer = self._job_of.get(getattr(event, "workload", WorkloadKey("")))
                if offer is not None:
                    yield from self._of_workload(event, offer, seq, at)

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
            case slices.WorkloadFinished(reason=reason, message=message):
                done = reason == "Succeeded"
                yield Fact(kind="Finished", job=offer, seq=seq, at=at, success=done, message=message[:512])
            case slices.WorkloadDeleted(workload=key):
                del self._job_of[key]
                self.check_of.pop(offer, None)
                yield Fact(kind="Gone", job=offer, seq=seq, at=at)
            case _:
                return
