"""What the scheduler's core costs, without log, network or other processes: CPU time in virtual time.

python -m tests.bench.core_cycle                     the large-scale scenario, then growing queues
python -m tests.bench.core_cycle --tick-ms 0.1       more, smaller decisions
python -m tests.bench.core_cycle --profile           where the time goes
"""

import argparse
import cProfile
import heapq
import json
import pstats
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.events.base import Event, PodSet
from sluice.events.ids import uid
from sluice.events.scheduler import Admitted, Evicted
from sluice.events.slices import WorkloadCreated, WorkloadFinished, WorkloadRecord, WorkloadStopped
from sluice.log.runtime.gc_tuning import tune
from tests.support.objects import applied

from .scenario import BASELINE, LARGE_SCALE, SMOKE, JobClass, Scenario, manifests

STOP_US = 1_000
"""How long a preempted workload takes to stop."""


class Simulation:
    """The scheduler, with jobs that run for as long as the scenario says."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.state: SchedulerState = self.scheduler.initial()
        self.encoder = msgspec.json.Encoder()
        self.now = 0
        self.seq = 0
        self.cpu = {"apply": 0.0, "decide": 0.0, "encode": 0.0}
        self.decides = self.events = self.bytes = 0
        self.queue: list[tuple[int, int, str, object]] = []
        self.order = 0
        self.runs: dict[str, int] = {}
        self.attempt: dict[str, int] = {}
        self.finished = self.preempted = 0

    def push(self, at: int, what: str, item: object) -> None:
        self.order += 1
        heapq.heappush(self.queue, (at, self.order, what, item))

    def fold(self, events: Iterable[Event]) -> None:
        start = time.process_time()
        for event in events:
            self.seq += 1
            self.scheduler.apply(self.state, event, self.seq, self.now)
        self.cpu["apply"] += time.process_time() - start

    def settle(self) -> None:
        """Decide until nothing more follows."""
        while True:
            start = time.process_time()
            events = self.scheduler.decide(self.state, self.now)
            middle = time.process_time()
            self.cpu["decide"] += middle - start
            self.decides += 1
            if not events:
                return
            self.events += len(events)
            data = self.encoder.encode(events)
            self.bytes += len(data)
            self.cpu["encode"] += time.process_time() - middle
            self.fold(events)
            for event in events:
                if isinstance(event, Admitted):
                    self.started(event.workload)
                elif isinstance(event, Evicted):
                    self.preempted += 1
                    self.attempt[event.workload] += 1
                    self.push(self.now + STOP_US, "stop", event.workload)

    def started(self, key: str) -> None:
        attempt = self.attempt[key] = self.attempt.get(key, 0) + 1
        self.push(self.now + self.runs[key], "finish", (key, attempt))

    def run(self, tick_us: int) -> None:
        """Play everything that is queued; what falls into one tick is folded before deciding."""
        while self.queue:
            self.now = self.queue[0][0]
            limit = self.now + tick_us
            events: list[Event] = []
            while self.queue and self.queue[0][0] <= limit:
                at, _, what, item = heapq.heappop(self.queue)
                self.now = max(self.now, at)
                event = self.event(what, item)
                if event is not None:
                    events.append(event)
            self.fold(events)
            self.settle()

    def event(self, what: str, item: Any) -> Event | None:
        if isinstance(item, WorkloadRecord):
            return WorkloadCreated(cause=0, workload=item)
        if what == "stop":
            return WorkloadStopped(cause=0, workload=item)
        assert isinstance(item, tuple)
        key, attempt = item
        if self.attempt[key] != attempt:
            return None
        self.finished += 1
        return WorkloadFinished(cause=0, workload=key)


def configure(simulation: Simulation, scenario: Scenario) -> None:
    for manifest in manifests(scenario):
        simulation.fold([applied(manifest)])
    simulation.settle()


def record(queue: str, job: JobClass, index: int, number: int, at: int) -> WorkloadRecord:
    return WorkloadRecord(
        namespace="default",
        name=f"{queue}-{job.name}-{index}",
        uid=uid(number),
        queue_name=queue,
        created_at=at,
        priority=job.priority,
        priority_class=job.name,
        pod_sets=(PodSet(name="main", count=1, requests={"cpu": job.cpu * 1000}),),
    )


def submit_all(simulation: Simulation, scenario: Scenario) -> None:
    """Queue all submissions. Queues start at different moments, or every decision would be a huge one."""
    number = 0
    for offset, (_, queue) in enumerate(scenario.queues()):
        for job in scenario.classes:
            for index in range(job.count):
                number += 1
                at = index * job.every_ms * 1000 + offset * 37 % 1009 * 59
                item = record(queue, job, index, number, at)
                simulation.runs[item.key] = job.runs_ms * 1000
                simulation.push(at, "create", item)


def whole(scenario: Scenario, tick_us: int) -> dict[str, object]:
    simulation = Simulation()
    configure(simulation, scenario)
    submit_all(simulation, scenario)
    simulation.cpu = dict.fromkeys(simulation.cpu, 0.0)
    simulation.decides = simulation.events = simulation.bytes = 0
    simulation.run(tick_us)
    total = sum(simulation.cpu.values())
    return {
        "bench": f"core-{scenario.name}",
        "tick_ms": tick_us / 1000,
        "workloads": scenario.jobs,
        "finished": simulation.finished,
        "preempted": simulation.preempted,
        "makespan_s": round(simulation.now / 1e6, 2),
        "decides": simulation.decides,
        "events": simulation.events,
        "event_bytes": simulation.bytes,
        "cpu_us_per_workload": round(total * 1e6 / scenario.jobs, 1),
        **{f"{name}_us": round(cpu * 1e6 / scenario.jobs, 1) for name, cpu in simulation.cpu.items()},
    }


def growing(pending: int, *, distinct: bool) -> dict[str, object]:
    """Cost of a round (one finishes, one is admitted, one comes) while *pending* workloads wait.

    They are equal to each other, or all different.
    """
    simulation = Simulation()
    job = JobClass("only", 1, 20, 50, 0, 0)
    configure(simulation, Scenario("one", 1, 1, (job,), 0.0, borrowing_cpu=0))

    def submit(number: int) -> None:
        item = record("cq-0-0", job, number, number + 1, number)
        if distinct:
            pod_set = msgspec.structs.replace(item.pod_sets[0], node_selector={"n": str(number)})
            item = msgspec.structs.replace(item, pod_sets=(pod_set,))
        simulation.runs[item.key] = 1000
        simulation.fold([WorkloadCreated(cause=0, workload=item)])

    for number in range(pending):
        submit(number)
    simulation.settle()
    simulation.cpu = dict.fromkeys(simulation.cpu, 0.0)
    rounds = 200
    for index in range(rounds):
        submit(pending + index)
        _, _, what, item = heapq.heappop(simulation.queue)
        event = simulation.event(what, item)
        assert event is not None
        simulation.fold([event])
        simulation.settle()
    return {
        "bench": "core-growing",
        "pending": pending,
        "distinct": distinct,
        "cpu_us_per_round": round(sum(simulation.cpu.values()) * 1e6 / rounds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tick-ms", type=float, default=1.0)
    parser.add_argument("--scenario", choices=("large", "baseline", "smoke"), default="large")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", choices=("whole", "growing"))
    args = parser.parse_args()
    tune()  # as the services do
    scenario = {"large": LARGE_SCALE, "baseline": BASELINE, "smoke": SMOKE}[args.scenario]
    profile = cProfile.Profile() if args.profile else None
    if args.only != "growing":
        if profile:
            profile.enable()
        result = whole(scenario, int(args.tick_ms * 1000))
        if profile:
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(35)
        print(json.dumps(result))
    if args.only != "whole":
        for distinct in (False, True):
            for pending in (100, 1_000, 10_000, 100_000):
                if distinct and pending > 10_000:
                    continue
                print(json.dumps(growing(pending, distinct=distinct)), flush=True)


if __name__ == "__main__":
    main()
