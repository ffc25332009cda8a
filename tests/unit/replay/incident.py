"""Makes the example log: research borrows from serving, serving takes its own back, a job waits.

python -m tests.unit.replay.incident        writes examples/logs/incident.slog and the golden logs
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.events.base import Event, Micros
from sluice.events.commit import Step
from sluice.events.scheduler import Evicted, Preempted
from sluice.log.contract import Entry
from sluice.replay.source import json_lines, log_file
from tests.bench.recorded import BEGIN, Recorder, Side
from tests.bench.scenario import JobClass, PlannedJob, Scenario
from tests.support.objects import applied, kueue_object, local_queue, priority_class, resource_group

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/logs/incident.slog"
GOLDEN = Path(__file__).parent / "golden"

_LONG, _SHORT = 600_000, 120_000
TRAIN = JobClass("batch", 1, 8, 10, 0, _LONG)
SWEEP = JobClass("batch", 1, 4, 10, 0, _SHORT)
ROLLOUT = JobClass("production", 1, 16, 100, 0, _LONG)
JOBS = [
    (0.0, "train-1", "research", TRAIN),
    (1.0, "train-2", "research", TRAIN),
    (2.0, "train-3", "research", TRAIN),
    (3.0, "train-4", "research", TRAIN),
    (60.0, "api-rollout", "serving", ROLLOUT),
    (70.0, "sweep-1", "research", SWEEP),
    (75.0, "sweep-2", "research", SWEEP),
]
FAR = 10**12


def _queue(name: str) -> list[dict[str, Any]]:
    spec = {
        "cohortName": "company",
        "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [resource_group({"on-demand": 16})],
    }
    return [kueue_object("ClusterQueue", name, spec), local_queue(name, name)]


def manifests() -> list[dict[str, Any]]:
    api = "kueue.x-k8s.io/v1beta2"
    return [
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "on-demand"}},
        priority_class("batch", 10),
        priority_class("production", 100),
        *_queue("research"),
        *_queue("serving"),
    ]


class Incident(Recorder):
    """The story, played to its end."""

    def __init__(
        self, scheduler: Scheduler | None = None, jobs: Sequence[tuple[float, str, str, JobClass]] = JOBS
    ):
        self.entries: list[Entry] = []
        self._story = jobs
        self._replaced = scheduler
        super().__init__(self.entries.append, Scenario("incident", 1, 1, (), 0.0))
        self._planned = self._jobs()
        self._next = next(self._planned)
        while self._due or self._next[0] < BEGIN + FAR:
            self._tick()

    def _configure(self) -> None:
        if self._replaced is not None:
            self.scheduler: Side[SchedulerState] = Side(self._replaced)
        for number, manifest in enumerate(manifests()):
            step = Step(upto=self.seq, at=self.now + number, events=(applied(manifest),))
            self._commit("config", [step])
        self.now += 1_000_000
        self._exchange()

    def _jobs(self) -> Iterator[tuple[Micros, PlannedJob]]:
        for at, name, queue, job_class in self._story:
            yield self.now_at(at), PlannedJob(at, name, queue, job_class)
        yield BEGIN + FAR, PlannedJob(0, "never", "research", TRAIN)

    @staticmethod
    def now_at(seconds: float) -> Micros:
        return BEGIN + 2_000_000 + int(seconds * 1e6)


class CarelessScheduler(Scheduler):
    """Preempts the right ones in the wrong order: what a changed ordering rule would do."""

    def decide(self, state: SchedulerState, at: Micros) -> Sequence[Event]:
        events = list(super().decide(state, at))
        pairs = [n for n, event in enumerate(events) if isinstance(event, Evicted)]
        pairs = [n for n in pairs if n + 1 < len(events) and isinstance(events[n + 1], Preempted)]
        if len(pairs) > 1:
            first, last = pairs[0], pairs[-1] + 2
            moved = [events[n : n + 2] for n in reversed(pairs)]
            events[first:last] = [event for pair in moved for event in pair]
        return tuple(events)


def main() -> None:
    EXAMPLE.parent.mkdir(parents=True, exist_ok=True)
    GOLDEN.mkdir(exist_ok=True)
    good = Incident().entries
    with EXAMPLE.open("wb") as file:
        log_file.write(file, log_file.Header(source="example: an incident"), [good])
    for name, entries in (
        ("incident", good),
        ("must-fail-victim-order", Incident(CarelessScheduler()).entries),
    ):
        with (GOLDEN / f"{name}.jsonl").open("wb") as file:
            json_lines.write(entries, file)


if __name__ == "__main__":
    main()
