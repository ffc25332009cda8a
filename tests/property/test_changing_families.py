"""Queues that race and race no more under jobs that run, crash and end, with services that lag (CA4, CA7).

At every moment, whatever an executor may be running has quota of the scheduler: once, and in the flavors and
counts that it was told. Driven by a seed.
"""

from random import Random
from typing import Any

import pytest

from sluice.core.views.view import View
from tests.support.examples import examples
from tests.support.family_world import FamilyWorld, cluster_queue, configuration, flavor, job, local_queue
from tests.support.log_check import wrong_with
from tests.support.objects import priority_class
from tests.support.view_invariants import violations

FLAVORS = ("res", "od", "spot")
QUEUES = ("a", "b")
SERVICES = ("slices", "variants", "scheduler")
ACTIONS = 60
SEEDS = range(examples(25))


class Changing:
    """Two queues, one of which races at first, and random things that happen to them and their jobs."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = FamilyWorld()
        self.number = 0
        self.names: list[str] = []
        self.world.apply(*(flavor(name) for name in FLAVORS), *(_level(n) for n in range(2)))
        for name in QUEUES:
            self.world.apply(self.queue(name), local_queue(name, name))
        self.world.settle_all()

    def queue(self, name: str) -> dict[str, Any]:
        choice = self.random.choice
        flavors = self.random.sample(FLAVORS, choice((1, 2, 3)))
        preemption = {"withinClusterQueue": choice(("LowerPriority", "Never"))}
        return cluster_queue(
            {found: choice((1, 2, 3)) for found in flavors},
            self.policy(flavors),
            name=name,
            preemption=preemption,
        )

    def policy(self, flavors: list[str]) -> dict[str, Any]:
        choice = self.random.choice
        policy: dict[str, Any] = {
            "migration": {
                "mode": choice(("TryPreferredFlavors", "TryPreferredFlavors", "RetainFirstAdmission"))
            }
        }
        match choice(("none", "none", "flavors", "flavors", "explicit", "explicit")):
            case "none":
                return {}
            case "flavors":
                return policy
        names = self.random.sample(("one", "two", "three"), choice((1, 2, 3)))
        policy["explicitVariants"] = [self.variant(name, flavors) for name in names]
        return policy

    def variant(self, name: str, flavors: list[str]) -> dict[str, Any]:
        choice = self.random.choice
        count = choice(range(1, len(flavors) + 1))
        found: dict[str, Any] = {"name": name, "allowedResourceFlavors": self.random.sample(flavors, count)}
        if choice((False, False, True)):
            found["createDelaySeconds"] = 20
        return found

    def play(self, actions: int) -> None:
        for _ in range(actions):
            self.act()
            self.world.now += 1000
            self.world.check()

    def act(self) -> None:
        world, choice = self.world, self.random.choice
        what = self.random.random()
        if what < 0.45:
            world.step(choice(SERVICES), choice((1, 2, 3, None)))
        elif what < 0.5:
            world.settle(choice((0, 1, 30)))
        elif what < 0.65 or not self.names:
            self.submit()
        elif what < 0.82:
            self.report(choice(self.names))
        else:
            self.configure()

    def submit(self) -> None:
        self.number += 1
        name = f"j{self.number}"
        manifest = job(name, self.random.choice((1, 2)), priority_class=f"p{self.random.randrange(2)}")
        manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = self.random.choice(QUEUES)
        if self.random.random() < 0.2:
            allowed = ",".join(self.random.sample(FLAVORS, 2))
            manifest["metadata"]["annotations"] = {
                "kueue.x-k8s.io/workload-allowed-resource-flavors": allowed
            }
        self.names.append(name)
        self.world.message(f"job.default.{name}", "JobSubmitted", manifest)

    def report(self, name: str) -> None:
        """An executor says something of the job, if it has anything to do with it."""
        world = self.world
        entry = world.dispatch(name)
        if self.random.random() < 0.05:
            world.message(f"job.default.{name}", "JobDeleted", {})
        elif entry is not None and entry.stop:
            world.report(name, "JobStopped")
        elif entry is not None and entry.state == "Running":
            kind = self.random.choice(("JobStopped", "JobStopped", "JobFinished", "JobPodsReady"))
            world.report(name, kind, **({"success": True} if kind == "JobFinished" else {}))

    def configure(self) -> None:
        world, choice = self.world, self.random.choice
        name = choice(QUEUES)
        match choice(
            ("gate", "gate", "blink", "local queue", "local queue", "cluster queue", "edit", "edit", "edit")
        ):
            case "gate":
                world.apply(configuration(featureGates={"ConcurrentAdmission": choice((True, False))}))
            case "blink":
                self.blink()
            case "local queue":
                world.delete("LocalQueue", name, "default")
                if choice((True, True, False)):
                    world.apply(local_queue(name, choice(QUEUES)))
            case "cluster queue":
                world.delete("ClusterQueue", name)
                if choice((True, True, False)):
                    world.apply(self.queue(name))
            case _:
                world.apply(self.queue(name))

    def blink(self) -> None:
        """The gate goes off and on again before the variant-controller has heard of it."""
        for on in (False, True):
            self.world.apply(configuration(featureGates={"ConcurrentAdmission": on}))
            for _ in range(self.random.choice((1, 3))):
                for name in ("slices", "scheduler"):
                    self.world.step(name, self.random.choice((1, 3, None)))
                    self.world.check()

    def end(self) -> None:
        """Bring everything back, and let it come to rest."""
        self.world.apply(configuration(featureGates={"ConcurrentAdmission": True}))
        for name in QUEUES:
            self.world.apply(self.queue(name), local_queue(name, name))
        self.world.settle_all()
        self.world.run_until(400)
        self.world.settle_all()


def _level(number: int) -> dict[str, Any]:
    return priority_class(f"p{number}", number * 100)


def check_rest(world: FamilyWorld) -> None:
    """What holds quota runs, and what runs is shown with it."""
    world.check()
    slices, scheduler = world.services["slices"].state, world.services["scheduler"].state.world
    held = {w.record.parent or w.key for w in scheduler.workloads.values() if w.assignment is not None}
    assert held == {found.record.key for found in slices.jobs.values() if found.phase}
    view = View()
    for seq, _, event in world.history:
        view.apply(event, seq, 0)
    assert not (wrong := violations(view)), wrong
    shown = {name: set(queue.workloads) for name, queue in view.cluster_queues.items()}
    assert {n: w for n, w in shown.items() if w} == {
        name: set(queue.workloads) for name, queue in scheduler.cluster_queues.items() if queue.workloads
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_runs_without_quota_while_queues_change(seed: int) -> None:
    changing = Changing(seed)
    changing.play(ACTIONS)
    changing.end()
    check_rest(changing.world)
    assert not (wrong := wrong_with(changing.world.log)), wrong
