"""What must hold of admission checks, by an account of its own that is made from the events alone."""

from dataclasses import dataclass, field
from typing import Any

from sluice.events.base import WorkloadKey
from sluice.events.checks import ChecksReady, ChecksRequested, CheckStateChanged
from sluice.events.codec import decode_commit
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved, WorkloadDeactivated
from sluice.events.slices import WorkloadCreated
from sluice.events.variants import ParentDeactivated, VariantCreated
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS

from .configuration import Checks


@dataclass
class CheckAudit:
    """What the log says of reservations and checks, in its own order. *checks*: of which queues."""

    checks: Checks

    attempts: dict[WorkloadKey, int] = field(default_factory=dict)
    ready: dict[WorkloadKey, int] = field(default_factory=dict)
    """Workload -> attempt that ChecksReady was said of."""
    approved: dict[tuple[WorkloadKey, str], int] = field(default_factory=dict)
    """Workload and check -> attempt for which it is Ready."""
    holding: dict[WorkloadKey, None] = field(default_factory=dict)
    jobs: dict[WorkloadKey, str] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    """Jobs that were deactivated."""
    checked: dict[WorkloadKey, None] = field(default_factory=dict)
    """Workloads that had quota in a queue with checks."""
    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, entries: list[Entry]) -> "CheckAudit":
        for entry in entries:
            if entry.suffix in COMMITS:
                for step in decode_commit(entry.payload).steps:
                    for event in step.events:
                        self.event(event, entry.seq)
        return self

    def event(self, event: Any, seq: int) -> None:
        name = getattr(event, "reason", "") if isinstance(event, CheckStateChanged) else ""
        name = name or type(event).__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        match event:
            case WorkloadCreated() if event.workload.job is not None:
                self.jobs[event.workload.key] = event.workload.job.key.partition("/")[2]
            case VariantCreated() if event.workload.parent is not None:
                self.jobs[event.workload.key] = self.jobs[event.workload.parent]
            case QuotaReserved():
                self.attempts[event.workload] = self.attempts.get(event.workload, 0) + 1
                self.holding[event.workload] = None
                if event.cluster_queue in self.checks:
                    self.checked[event.workload] = None
            case Evicted() | QuotaReleased():
                self.holding.pop(event.workload, None)
            case ChecksReady():
                self.ready[event.workload] = event.attempt
            case Admitted() if event.workload in self.checked:
                now = self.attempts.get(event.workload, 0)
                if event.workload not in self.holding or self.ready.get(event.workload) != now:
                    self.wrong.append(f"{event.workload}: admitted at {seq}, its checks passed for another")
            case WorkloadDeactivated() | ParentDeactivated():
                if event.workload in self.jobs:
                    self.rejected.add(self.jobs[event.workload])
            case CheckStateChanged():
                self._begun(event.workload, event.attempt, seq)
                self._approval(event, seq)
            case ChecksRequested():
                self._begun(event.workload, event.attempt, seq)
            case _:
                pass

    def _begun(self, workload: WorkloadKey, attempt: int, seq: int) -> None:
        if attempt > self.attempts.get(workload, 0):
            self.wrong.append(f"{workload}: attempt {attempt} at {seq} has not begun")

    def _approval(self, event: CheckStateChanged, seq: int) -> None:
        """The controllers of a run never take back what they have approved; nobody else may."""
        key = (event.workload, event.check)
        if event.state == "Ready":
            self.approved[key] = event.attempt
        elif self.approved.get(key) == event.attempt:
            self.wrong.append(f"{event.workload}: {event.check} was Ready, and is {event.state} at {seq}")

    def summary(self) -> str:
        shown = ("ChecksRequested", "CheckStateChanged", "ChecksReady", "ChecksRetry", "ChecksRejected")
        more = ("AnswerTimeout", "VerdictIgnored")
        return ", ".join(f"{self.counts.get(name, 0)} {name}" for name in (*shown, *more))
