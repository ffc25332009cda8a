"""What the log says of a run: per job, per queue and flavor, and every preemption. A fold; no measuring."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from sluice.api import kueue
from sluice.api.quantity import format_value, resource_value
from sluice.cli.kit.durations import precise
from sluice.cli.kit.table import Column, render
from sluice.core.quota.tree import FlavorResource
from sluice.core.workload.charges import usage_of
from sluice.events import scheduler as s
from sluice.events import slices
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.codec import CommitDecodeError, decode_commit
from sluice.events.config import ObjectApplied
from sluice.log.contract import Entry

RESOURCE = "cpu"
"""The resource whose use over time is summed up."""


@dataclass(slots=True)
class JobRow:
    """One job's life so far. Times in microseconds."""

    name: str
    queue: str
    priority: int
    created_at: Micros
    attempts: int = 0
    started_at: Micros | None = None
    ran: Micros = 0
    finished_at: Micros | None = None
    outcome: str = ""
    flavors: tuple[str, ...] = ()
    cluster_queue: str = ""
    usage: dict[FlavorResource, int] = field(default_factory=dict)

    def waited_s(self, now: Micros) -> float:
        """Return how long it was without quota, all its waits together."""
        until = now if self.finished_at is None else self.finished_at
        running = 0 if self.started_at is None else until - self.started_at
        return max(until - self.created_at - self.ran - running, 0) / 1e6


@dataclass(slots=True)
class UseRow:
    """Use of one flavor by one queue: now, at most, and summed over time (unit-microseconds)."""

    nominal: int
    now: int = 0
    peak: int = 0
    total: int = 0
    total_borrowed: int = 0
    peak_borrowed: int = 0
    jobs: int = 0
    since: Micros = 0

    def change(self, delta: int, at: Micros) -> None:
        """Add *delta* from *at* on."""
        elapsed = max(at - self.since, 0)
        self.total += self.now * elapsed
        self.total_borrowed += max(self.now - self.nominal, 0) * elapsed
        self.since = at
        self.now += delta
        self.peak = max(self.peak, self.now)
        self.peak_borrowed = max(self.peak_borrowed, self.now - self.nominal)


@dataclass(frozen=True, slots=True)
class PreemptionRow:
    seq: int
    at: Micros
    victim: str
    preemptor: str
    rule: str
    message: str


@dataclass(slots=True)
class Report:
    """A fold over the log of a run."""

    jobs: dict[WorkloadKey, JobRow] = field(default_factory=dict)
    use: dict[tuple[str, str], UseRow] = field(default_factory=dict)
    """(cluster queue, flavor) -> use of RESOURCE."""
    preemptions: list[PreemptionRow] = field(default_factory=list)
    first_at: Micros = 0
    last_at: Micros = 0
    events: int = 0
    seq: int = 0

    def fold(self, entries: list[Entry]) -> None:
        """Take in entries of the log, in order."""
        for entry in entries:
            self.seq = entry.seq
            for event, at in _events(entry):
                self.events += 1
                self._event(event, entry.seq, at)

    def _event(self, event: Event, seq: int, at: Micros) -> None:
        match event:
            case ObjectApplied(kind="ClusterQueue"):
                self._queue(event)
            case slices.WorkloadCreated():
                self._created(event, at)
            case s.QuotaReserved():
                self._reserved(event, at)
            case s.QuotaReleased():
                self._released(event.workload, at)
            case slices.JobResumed():
                row = self.jobs.get(event.workload)
                if row is not None:
                    row.attempts = event.attempt
            case slices.WorkloadFinished():
                self._released(event.workload, at)
                row = self.jobs.get(event.workload)
                if row is not None and row.finished_at is None:
                    row.finished_at, row.outcome = at, event.reason
            case s.Preempted():
                self.preemptions.append(
                    PreemptionRow(
                        seq,
                        at,
                        self.job_name(event.workload),
                        self.job_name(event.preemptor),
                        event.rule,
                        event.message,
                    )
                )

    def job_name(self, key: WorkloadKey) -> str:
        """Return the job of a workload, the key when unknown."""
        row = self.jobs.get(key)
        return row.name if row is not None else key

    def _queue(self, event: ObjectApplied) -> None:
        queue = msgspec.json.decode(event.object, type=kueue.ClusterQueue)
        for group in queue.spec.resource_groups:
            for flavor in group.flavors:
                for quota in flavor.resources:
                    if quota.name == RESOURCE:
                        nominal = resource_value(RESOURCE, quota.nominal_quota)
                        self.use.setdefault((event.name, flavor.name), UseRow(nominal))

    def _created(self, event: slices.WorkloadCreated, at: Micros) -> None:
        record = event.workload
        name = record.job.key.partition("/")[2] if record.job is not None else record.name
        self.jobs[record.key] = JobRow(name, record.queue_name, record.priority, record.created_at)
        self.first_at = self.first_at or at
        self.last_at = at

    def _reserved(self, event: s.QuotaReserved, at: Micros) -> None:
        row = self.jobs.get(event.workload)
        if row is None:
            return
        row.started_at = at
        row.cluster_queue = event.cluster_queue
        row.usage = usage_of(event.pod_sets, (), {})
        row.flavors = tuple(dict.fromkeys(flavor for flavor, _ in row.usage))
        for (flavor, resource), amount in row.usage.items():
            if resource == RESOURCE:
                use = self.use.setdefault((event.cluster_queue, flavor), UseRow(0))
                use.jobs += 1
                use.change(amount, at)

    def _released(self, key: WorkloadKey, at: Micros) -> None:
        self.last_at = max(self.last_at, at)
        row = self.jobs.get(key)
        if row is None or row.started_at is None:
            return
        row.ran += at - row.started_at
        row.started_at = None
        for (flavor, resource), amount in row.usage.items():
            if resource == RESOURCE:
                self.use[row.cluster_queue, flavor].change(-amount, at)
        row.usage = {}

    # Checks and tables

    @property
    def finished(self) -> int:
        return sum(1 for row in self.jobs.values() if row.finished_at is not None)

    @property
    def failed(self) -> list[str]:
        return [row.name for row in self.jobs.values() if row.outcome == "Failed"]

    @property
    def queued(self) -> int:
        """How many jobs had to wait for quota for a noticeable time."""
        return sum(1 for row in self.jobs.values() if row.waited_s(self.last_at) > 0.5)

    @property
    def borrowed(self) -> bool:
        return any(row.peak_borrowed > 0 for row in self.use.values())

    def job_table(self) -> list[str]:
        """Return a line per job."""
        columns = [
            Column[JobRow]("JOB", lambda r: r.name),
            Column[JobRow]("QUEUE", lambda r: r.queue),
            Column[JobRow]("FLAVOR", lambda r: ",".join(r.flavors)),
            Column[JobRow]("PRIORITY", lambda r: str(r.priority), right=True),
            Column[JobRow]("WAITED", lambda r: precise(r.waited_s(self.last_at)), right=True),
            Column[JobRow]("RAN", lambda r: precise(r.ran / 1e6), right=True),
            Column[JobRow]("ATTEMPTS", lambda r: str(r.attempts), right=True),
            Column[JobRow]("OUTCOME", lambda r: r.outcome or "unfinished"),
        ]
        return render(list(self.jobs.values()), columns)

    def use_table(self) -> list[str]:
        """Return a line per queue and flavor."""
        span = max(self.last_at - self.first_at, 1)
        Row = tuple[tuple[str, str], UseRow]
        columns = [
            Column[Row]("QUEUE", lambda r: r[0][0]),
            Column[Row]("FLAVOR", lambda r: r[0][1]),
            Column[Row]("JOBS", lambda r: str(r[1].jobs), right=True),
            Column[Row]("NOMINAL", lambda r: format_value(RESOURCE, r[1].nominal), right=True),
            Column[Row]("MEAN", lambda r: f"{r[1].total / span / 1000:.1f}", right=True),
            Column[Row]("PEAK", lambda r: format_value(RESOURCE, r[1].peak), right=True),
            Column[Row](
                "MOST BORROWED", lambda r: format_value(RESOURCE, max(r[1].peak_borrowed, 0)), right=True
            ),
            Column[Row]("BORROWED CPU-S", lambda r: f"{r[1].total_borrowed / 1e9:.1f}", right=True),
        ]
        return render(list(self.use.items()), columns)

    def preemption_table(self) -> list[str]:
        """Return a line per preemption."""
        columns = [
            Column[PreemptionRow]("SEQ", lambda r: str(r.seq), right=True),
            Column[PreemptionRow]("AFTER", lambda r: precise((r.at - self.first_at) / 1e6), right=True),
            Column[PreemptionRow]("VICTIM", lambda r: r.victim),
            Column[PreemptionRow]("PREEMPTED BY", lambda r: r.preemptor),
            Column[PreemptionRow]("RULE", lambda r: r.rule),
        ]
        return render(self.preemptions, columns)


def _events(entry: Entry) -> Iterator[tuple[Event, Micros]]:
    if entry.suffix not in ("config", "slices", "scheduler"):
        return
    try:
        commit = decode_commit(entry.payload, entry.suffix, entry.seq)
    except CommitDecodeError:
        return
    for step in commit.steps:
        for event in step.events:
            yield event, step.at
