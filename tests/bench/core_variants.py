"""What concurrent admission costs: CPU per job of the deciders, with variants on against off.

    python -m tests.bench.core_variants [jobs]

Queues with three flavors, four times as many jobs as fit; rounds in which what runs ends, until all have
run. In memory, without network; the log's encoding and decoding are part of it.
"""

import sys
import time
from typing import Any

from sluice.events.commit import Step
from tests.family_world import FamilyWorld, Service, cluster_queue, flavor, job, local_queue

FLAVORS = {"reservation": 5, "on-demand": 5, "spot": 5}
PER_QUEUE = 60


class Timed(FamilyWorld):
    """A cell that counts CPU instead of checking."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cpu: dict[str, float] = dict.fromkeys(self.services, 0.0)

    def step(self, writer: str, entries: int | None = None) -> bool:
        began = time.process_time()
        said = super().step(writer, entries)
        self.cpu[writer] += time.process_time() - began
        return said

    def _decide(self, service: Service) -> bool:
        steps: list[Step] = []
        while events := tuple(service.decider.decide(service.state, self.now)):
            steps.append(Step(upto=service.upto, at=self.now, events=events))
            for event in events:
                service.decider.apply(service.state, event, service.upto, self.now)
        if steps:
            self.commit(service.decider.writer, steps)
        return bool(steps)


def play(jobs: int, policy: dict[str, Any] | None) -> tuple[dict[str, float], int]:
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
    said = (event for _, writer, event in world.history if writer == "scheduler")
    migrations = sum(getattr(event, "reason", "") == "FlavorMigration" for event in said)
    return world.cpu, migrations


def main() -> int:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1200
    results = {}
    for name, policy in (
        ("off", {}),
        ("retain first", {"migration": {"mode": "RetainFirstAdmission"}}),
        ("try preferred", None),
    ):
        cpu, migrations = play(jobs, policy)
        results[name] = total = sum(cpu.values()) / jobs * 1e6
        parts = ", ".join(f"{writer} {seconds / jobs * 1e6:.0f}" for writer, seconds in cpu.items())
        ratio = total / results["off"]
        print(f"{name}: {total:.0f} us of CPU per job ({parts}), {ratio:.2f} times off")
        print(f"  {migrations} evictions and requeues by migration")
    return 0


if __name__ == "__main__":
    sys.exit(main())
