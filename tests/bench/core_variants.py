"""What concurrent admission costs: CPU per job of the deciders, with variants on against off.

    python -m tests.bench.core_variants [baseline|rounds] [jobs]

`baseline`: jobs of the baseline scenario, in virtual time, on queues with three flavors. `rounds`: four times
as many jobs as fit, and rounds in which what runs ends, until all have run: the worst case, as nearly every
job moves twice. In memory, without network; the log's encoding and decoding are part of it.
"""

import heapq
import sys
import time
from dataclasses import replace
from typing import Any

import msgspec

from sluice.core.decision_loop import settle
from sluice.events.base import Event
from sluice.events.commit import Step
from sluice.events.scheduler import Evicted
from sluice.events.slices import JobResumed, JobSuspended
from sluice.log.runtime.gc_tuning import tune
from tests.support.family_world import FamilyWorld, cluster_queue, flavor, job, local_queue
from tests.support.memory_log import Service

from .scenario import BASELINE, Scenario, job_manifest, manifests, plan

FLAVORS = {"reservation": 5, "on-demand": 5, "spot": 5}
PER_QUEUE = 60


class Timed(FamilyWorld):
    """A cell that counts CPU instead of checking."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cpu: dict[str, float] = dict.fromkeys(self.services, 0.0)

    def step(self, writer: str, entries: int | None = None) -> list[Event]:
        began = time.process_time()
        said = super().step(writer, entries)
        self.cpu[writer] += time.process_time() - began
        return said

    def decide(self, service: Service) -> list[Step]:
        return list(settle(service.decider, service.state, service.upto, self.now))


def rounds(jobs: int, policy: dict[str, Any] | None) -> tuple[dict[str, float], int]:
    """Run *jobs* to their ends; return CPU seconds by decider, and how often jobs migrated."""
    world = Timed()
    queues = [f"q{n}" for n in range(max(1, jobs // PER_QUEUE))]
    world.apply(*(flavor(name) for name in FLAVORS))
    world.apply(*(cluster_queue(FLAVORS, policy, name=name) for name in queues))
    world.apply(*(local_queue(name, name) for name in queues))
    for number in range(jobs):
        manifest = job(f"j{number}")
        manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queues[number % len(queues)]
        world.message(f"job.default.j{number}", "JobSubmitted", manifest)
    slices = world.services["slices"].state
    while True:
        world.settle_all(1)
        running = [key.partition("/")[2] for key, one in slices.jobs.items() if one.admitted]
        if not running:
            break
        for name in running[: max(1, len(running) // 2)]:
            world.report(name, "JobFinished", success=True)
    assert not slices.jobs, "jobs are left"
    return world.cpu, migrations_of(world)


def migrations_of(world: FamilyWorld) -> int:
    evicted = (event for event in world.events(Evicted) if isinstance(event, Evicted))
    return sum(event.reason == "FlavorMigration" for event in evicted)


TICK_US = 5_000
"""What happens within so long is decided together."""


def virtual(scenario: Scenario) -> tuple[dict[str, float], int]:
    """Play *scenario* in virtual time; return CPU seconds by decider, and how often jobs migrated."""
    world = Timed()
    world.apply(*manifests(scenario)).settle()
    world.cpu = dict.fromkeys(world.cpu, 0.0)
    began, read = world.now, len(world.history)
    planned = {job.name: job for job in plan(scenario)}
    due: list[tuple[int, str, int]] = [(began + int(job.at_s * 1e6), job.name, 0) for job in planned.values()]
    heapq.heapify(due)
    attempts: dict[str, int] = {}
    while due:
        world.now = max(world.now, due[0][0])
        until = world.now + TICK_US
        while due and due[0][0] <= until:
            _, name, attempt = heapq.heappop(due)
            if not attempt:
                manifest = msgspec.json.decode(job_manifest(planned[name]))
                world.message(f"job.default.{name}", "JobSubmitted", manifest)
            elif attempts.get(name) == attempt:
                world.message(f"job.default.{name}", "JobFinished", {"attempt": attempt, "success": True})
        world.settle()
        rounds = 0
        while read < len(world.history):
            rounds += 1
            assert rounds < 200, "jobs stop and start for ever"
            for _, _, event in world.history[read:]:
                if isinstance(event, JobResumed):
                    name = event.job.partition("/")[2]
                    attempts[name] = event.attempt
                    ends = world.now + planned[name].job_class.runs_ms * 1000
                    heapq.heappush(due, (ends, name, event.attempt))
                elif isinstance(event, JobSuspended):
                    name = event.job.partition("/")[2]
                    if attempts.pop(name, 0) == event.attempt:
                        world.message(f"job.default.{name}", "JobStopped", {"attempt": event.attempt})
            read = len(world.history)
            world.settle()
    assert not world.services["slices"].state.jobs, "jobs are left"
    return world.cpu, migrations_of(world)


def main() -> int:
    what = sys.argv[1] if len(sys.argv) > 1 else "baseline"
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 1200
    tune()
    results: dict[str, float] = {}
    for mode in ("", "RetainFirstAdmission", "TryPreferredFlavors"):
        if what == "rounds":
            cpu, migrations = rounds(jobs, {"migration": {"mode": mode}} if mode else {})
        else:
            share = jobs / (BASELINE.jobs // BASELINE.cohorts)
            classes = tuple(replace(c, count=round(c.count * share)) for c in BASELINE.classes)
            scenario = replace(BASELINE, cohorts=1, classes=classes, flavors=tuple(FLAVORS), policy=mode)
            jobs = scenario.jobs
            cpu, migrations = virtual(scenario)
        results[mode] = total = sum(cpu.values()) / jobs * 1e6
        parts = ", ".join(f"{writer} {seconds / jobs * 1e6:.0f}" for writer, seconds in cpu.items())
        print(
            f"{mode or 'off'}: {total:.0f} us of CPU per job ({parts}), {total / results['']:.2f} times off; "
            f"{migrations / jobs:.2f} migrations per job",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
