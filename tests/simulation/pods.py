"""The work of one attempt: its pods, by the machine of `sluice.services.agent.pods`, ending by chance.

What a pod did is kept here once more, in the plainest way, to tell whether a job that is said to have
succeeded has: which indexes have exited 0 of their own accord.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from sluice.api.decode import decode_object
from sluice.events.job import JobEvent, JobPodsReady, JobPodsReclaimable
from sluice.protocol.dispatch import DispatchEntry
from sluice.sdk.execution._outcome import Outcome
from sluice.sdk.execution._ownership import claim_id
from sluice.services.agent.errors import PlanError
from sluice.services.agent.plan import Plan, PodSetPlan, make_plan
from sluice.services.agent.pods import (
    COUNTED,
    Command,
    End,
    Ended,
    KillPod,
    Pod,
    PodId,
    Pods,
    ReportReady,
    ReportReclaimable,
    StartPod,
    TermPod,
    Timing,
)

from .log import SECOND
from .truth import Proc, pods_of

if TYPE_CHECKING:
    from .executors import Executor, Life

LARGE = "x" * (1 << 20)
TIMING = Timing(grace=2 * SECOND, retry_delay=SECOND, retry_most=10 * SECOND)
ENDING = frozenset({Pod.ENDING, Pod.KILLED})
BEGINNING = frozenset({Pod.STARTING, Pod.DOOMED})


def plan_of(manifest: dict[str, Any], entry: DispatchEntry) -> Plan:
    """Return what an agent would run; of kinds that it does not run, pods that each have to be done once.

    Raises:
        PlanError: it cannot be run.
    """
    if manifest.get("kind") in ("Job", "JobSet"):
        return make_plan(decode_object(manifest), entry)
    return Plan(
        [
            PodSetPlan(p.name, p.ungated, p.ungated, indexed=False, command=("true",), env=())
            for p in entry.pod_sets
        ]
    )


@dataclass(eq=False)
class Work:
    """Runs one attempt on one executor, from its start to `over`."""

    executor: "Executor"
    life: "Life"
    number: int
    entry: DispatchEntry
    manifest: dict[str, Any]
    proc: Proc = field(init=False)
    machine: Pods = field(init=False)
    plan: Plan = field(init=False)
    done: dict[str, set[int]] = field(default_factory=dict)
    """Pod set -> indexes that have exited 0 by themselves."""
    dropped: set[PodId] = field(default_factory=set)
    """Told to end because the job got smaller: their quota was free from when it was said (WS3)."""
    readiness: int = 0
    ended_reports: int = 0
    reports: list[tuple[JobEvent, str]] = field(default_factory=list)
    """Waiting to be published, one after another."""
    reporting: int = 0
    over: bool = False

    def begin(self) -> None:
        entry, executor = self.entry, self.executor
        self.proc = Proc(
            entry.job,
            entry.uid,
            entry.attempt,
            entry.workload,
            executor.name,
            self.life.instance,
            pods_of(entry),
        )
        self.proc.seq = entry.seq
        for pods in self.proc.pods.values():
            pods.running = 0
        try:
            self.plan = plan_of(self.manifest, entry)
        except PlanError as error:
            self.life.work_ended(self, Outcome(success=False, message=str(error)))
            return
        self.proc.lost = self._is_lost()
        self.machine = Pods(self.plan, TIMING)
        self._once()
        executor.cell.truth.start(self.proc)
        self._do(self.machine.begin(self.now))

    def _once(self) -> None:
        """An attempt is begun by one process: whoever takes it up after that one ends it."""
        cell, entry = self.executor.cell, self.entry
        before = cell.truth.begun.setdefault((entry.uid, entry.attempt), self.life.instance)
        if before != self.life.instance:
            text = f"attempt {entry.attempt} of {entry.job} is begun by {self.life.instance}"
            cell.watchman.fail("begun-once", f"{text}, and was by {before}")

    def _is_lost(self) -> bool:
        """Has the cell declared the executor lost since it took the attempt? It does not know yet."""
        cell, entry = self.executor.cell, self.entry
        mine = claim_id(entry.uid, entry.attempt, self.life.instance)
        taken = [told.seq for told in cell.told.get(entry.job, ()) if told.message_id == mine]
        return bool(taken) and cell.watchman.lost_at.get(self.executor.name, 0) > taken[0]

    @property
    def now(self) -> int:
        return self.executor.cell.now

    def _do(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case ReportReady():
                    self.readiness += 1
                    self._report(self._ready(ready=True), f"ready{self.readiness}")
                case ReportReclaimable(pods, succeeded):
                    if not self.over:
                        data = JobPodsReclaimable(
                            pods=dict(pods),
                            succeeded=dict(succeeded),
                            attempt=self.entry.attempt,
                            uid=self.entry.uid,
                        )
                        self.ended_reports += 1
                        self._report(data, f"reclaimable{self.ended_reports}")
                case Ended():
                    self._ended(command)
                case StartPod() | TermPod() | KillPod():
                    pass
        self._count()

    def _ready(self, *, ready: bool) -> JobPodsReady:
        entry = self.entry
        return JobPodsReady(attempt=entry.attempt, uid=entry.uid, executor=self.executor.name, ready=ready)

    def _count(self) -> None:
        """Bring the truth up to date: a pod counts from when it may have been started until it is gone."""
        counts: dict[str, int] = {}
        for pod in self.machine.running():
            if pod in self.dropped:
                continue
            counts[pod.pod_set] = counts.get(pod.pod_set, 0) + 1
        for name, pods in self.proc.pods.items():
            pods.running = counts.get(name, 0)
        self.executor.cell.truth.changed[self.proc.job] = None

    def _ended(self, ended: Ended) -> None:
        cell = self.executor.cell
        self.over = True
        cell.truth.end(self.proc)
        outcome = None
        if ended.how is not End.STOPPED:
            message = ended.message
            if cell.on.large and not cell.calm and ended.how is End.FAILED and cell.choices.chance(0.5):
                message = LARGE  # all that it has printed
            outcome = Outcome(success=ended.how is End.SUCCEEDED, message=message)
        if ended.how is End.SUCCEEDED:
            if (missing := self.missing()) is not None:
                cell.watchman.fail("success-is-done", f"{self.entry.job} has succeeded, but {missing}")
            cell.truth.succeeded[self.entry.job, self.entry.uid] = self.executor.name
        self.life.work_ended(self, outcome)

    def missing(self) -> str | None:
        """Return what was not done of a job that is to have succeeded; None when nothing is missing."""
        for pods in self.plan.pod_sets:
            done = self.done.get(pods.name, set())
            if pods.completions is None:
                if not done:
                    return f"no pod of {pods.name} did its work"
                continue
            if pods.indexed:
                done = {index for index in done if index < pods.completions}
            if len(done) < pods.completions:
                return f"{pods.name} has done {sorted(done)} of {pods.completions}"
        return None

    # what happens to it

    def resize(self, entry: DispatchEntry, *, resized: bool) -> None:
        self.entry = entry
        if not resized or self.over:
            return
        self.proc.seq = entry.seq
        for name, pods in pods_of(entry).items():
            self.proc.pods[name].flavors = pods.flavors
        self.plan = plan_of(self.manifest, entry)
        commands = self.machine.resize(self.plan, self.now)
        self.dropped |= {pod for pod, state in self.machine.running().items() if state not in COUNTED}
        self._do(commands)

    def cancel(self) -> None:
        if not self.over:
            self._do(self.machine.stop(self.now))

    def pods(self, states: frozenset[Pod]) -> list[PodId]:
        return [pod for pod, state in self.machine.running().items() if state in states]

    def starts(self, pod: PodId) -> None:
        self._do(self.machine.started(pod, self.now))

    def exits(self, pod: PodId, code: int) -> None:
        if self.machine.state(pod) is Pod.RUNNING and code == 0:
            self.done.setdefault(pod.pod_set, set()).add(pod.index)
        self.dropped.discard(pod)
        self._do(self.machine.exited(pod, code, self.now))

    def tick(self) -> bool:
        due = self.machine.deadline()
        if due is None or due > self.now:
            return False
        self._do(self.machine.tick(self.now))
        return True

    def unready(self) -> None:
        """A pod is not ready any more; that is said, and then that it is again."""
        self.readiness += 1
        self._report(self._ready(ready=False), f"ready{self.readiness}")
        self.readiness += 1
        self._report(self._ready(ready=True), f"ready{self.readiness}")

    # reports

    def _report(self, data: JobEvent, what: str) -> None:
        self.reports.append((data, what))
        self.say()

    def say(self) -> None:
        """Publish the next report, once the one before is in the log."""
        if self.reporting or not self.reports:
            return
        data, what = self.reports.pop(0)
        self.reporting = self.life.report(self, data, f"{self.entry.uid}-{self.entry.attempt}-{what}")

    def reported(self) -> None:
        self.reporting = 0
        self.say()


def manifest_at(payload: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(payload)["data"]
    return found


__all__ = ["BEGINNING", "ENDING", "Work", "manifest_at"]
