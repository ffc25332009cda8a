"""Report of a run from its log: per job, per queue and flavor, and every preemption. A fold; no measuring."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sluice.api.quantity import format_value
from sluice.cli.kit.durations import precise
from sluice.cli.kit.table import Column, render
from sluice.core.views import JobView, View
from sluice.core.views.present.job import Phase, current, is_over, job_status
from sluice.core.views.present.unadmitted import assigned_flavors
from sluice.core.views.quota_totals import nominal_quota
from sluice.events import scheduler as s
from sluice.events import slices
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.codec import CommitDecodeError, decode_commit
from sluice.log.contract import Entry

RESOURCE = "cpu"
"""The resource whose use over time is summed up."""


class JobRow(NamedTuple):
    """One job's life so far."""

    name: str
    queue: str
    flavors: str
    priority: int
    waited_s: float
    """All its waits together."""
    ran_s: float
    attempts: int
    outcome: str


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

    def change(self, amount: int, at: Micros) -> None:
        """Note that *amount* is used from *at* on."""
        elapsed = max(at - self.since, 0)
        self.total += self.now * elapsed
        self.total_borrowed += max(self.now - self.nominal, 0) * elapsed
        self.since = at
        self.now = amount
        self.peak = max(self.peak, self.now)
        self.peak_borrowed = max(self.peak_borrowed, self.now - self.nominal)


@dataclass(frozen=True, slots=True)
class PreemptionRow:
    seq: int
    at: Micros
    victim: str
    preemptor: str
    rule: str


@dataclass(slots=True)
class Report:
    """A fold over the log of a run."""

    view: View = field(default_factory=View)
    use: dict[tuple[str, str], UseRow] = field(default_factory=dict)
    """(cluster queue, flavor) -> use of RESOURCE."""
    preemptions: list[PreemptionRow] = field(default_factory=list)
    first_at: Micros = 0
    last_at: Micros = 0
    """Of what happened to jobs."""
    events: int = 0

    def fold(self, entries: list[Entry]) -> None:
        """Take in entries of the log, in order."""
        for entry in entries:
            for event, at in _events(entry):
                self.events += 1
                self.view.apply(event, entry.seq, at)
                self._event(event, entry.seq, at)

    def _event(self, event: Event, seq: int, at: Micros) -> None:
        match event:
            case slices.WorkloadCreated() | slices.WorkloadFinished() | s.QuotaReleased():
                self.first_at, self.last_at = self.first_at or at, at
            case s.Preempted():
                victim, preemptor = self._job_name(event.workload), self._job_name(event.preemptor)
                self.preemptions.append(PreemptionRow(seq, at, victim, preemptor, event.rule))
        for queue in self.view.cluster_queues.values():
            for (flavor, resource), nominal in nominal_quota(queue).items():
                if resource == RESOURCE:
                    use = self.use.setdefault((queue.name, flavor), UseRow(nominal))
                    use.change(queue.reservation.get((flavor, resource), 0), at)
        if isinstance(event, s.QuotaReserved):
            for flavor in {assigned.flavors.get(RESOURCE, "") for assigned in event.pod_sets} - {""}:
                self.use[event.cluster_queue, flavor].jobs += 1

    def _job_name(self, key: WorkloadKey) -> str:
        workload = self.view.workloads.get(key)
        job = workload.record.job if workload is not None else None
        return key if job is None else _name(job.key)

    # Checks and tables

    @property
    def jobs(self) -> list[str]:
        return [_name(key) for key in self.view.jobs]

    @property
    def unfinished(self) -> list[str]:
        return [_name(job.key) for job in self.view.jobs.values() if not is_over(job)]

    @property
    def failed(self) -> list[str]:
        return [row.name for row in self._rows() if row.outcome == Phase.FAILED]

    @property
    def queued(self) -> int:
        """How many jobs had to wait for quota for a noticeable time."""
        return sum(1 for row in self._rows() if row.waited_s > 0.5)

    @property
    def borrowed(self) -> bool:
        return any(row.peak_borrowed > 0 for row in self.use.values())

    def _rows(self) -> list[JobRow]:
        return [self._row(job) for job in self.view.jobs.values()]

    def _row(self, job: JobView) -> JobRow:
        found = job_status(self.view, job)
        end = found.finished_at or self.last_at
        ran = job.ran_us + (end - found.admitted_at if found.admitted_at is not None else 0)
        return JobRow(
            _name(job.key),
            found.queue_name,
            ",".join(assigned_flavors(current(job))),
            found.priority,
            waited_s=max(end - found.created_at - ran, 0) / 1e6,
            ran_s=ran / 1e6,
            attempts=found.attempt,
            outcome=str(found.phase) if is_over(job) else "unfinished",
        )

    def job_table(self) -> list[str]:
        """Return a line per job."""
        columns = [
            Column[JobRow]("JOB", lambda r: r.name),
            Column[JobRow]("QUEUE", lambda r: r.queue),
            Column[JobRow]("FLAVOR", lambda r: r.flavors),
            Column[JobRow]("PRIORITY", lambda r: str(r.priority), right=True),
            Column[JobRow]("WAITED", lambda r: precise(r.waited_s), right=True),
            Column[JobRow]("RAN", lambda r: precise(r.ran_s), right=True),
            Column[JobRow]("ATTEMPTS", lambda r: str(r.attempts), right=True),
            Column[JobRow]("OUTCOME", lambda r: r.outcome),
        ]
        return render(self._rows(), columns)

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


def _name(key: str) -> str:
    return key.partition("/")[2]


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
