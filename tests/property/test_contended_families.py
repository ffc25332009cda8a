"""Families that race, migrate and preempt in a cohort: everything comes to rest (CA10, CA11, SC2).

Executors stop at once here, so whatever jobs can take from each other in turn, they take without end.
Driven by a seed: what is drawn one by one makes preemption and migration too rare.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from sluice.core.scheduler.invariants import violations
from sluice.core.views import View
from sluice.events.commit import Step
from tests.support.family_world import FamilyWorld, cluster_queue, flavor, job, local_queue
from tests.support.log_check import wrong_with
from tests.support.memory_log import Service
from tests.support.objects import priority_class

FLAVORS = ("res", "od", "spot")
QUEUES = ("a", "b", "c")
LEVELS = 3
ACTIONS = 40
SEEDS = (*range(12), 20, 30, 54, 57, 205)
"""In the last five, jobs once moved to what others took again and preempted each other for, for ever.

In 30 and 205 the policies ask for it, variants or not: one takes back from a second, a third preempts the
first in its queue, and the second, being older, takes the place that was made for the third.
"""


@dataclass
class Bounded(FamilyWorld):
    """A cell that counts the steps of its scheduler."""

    def decide(self, service: Service) -> list[Step]:
        if service.decider.writer != "scheduler":
            return super().decide(service)
        classes = sum(len(queue.classes) for queue in service.state.pending.queues.values())
        steps = super().decide(service)
        waiting = sum(w.assignment is None for w in service.state.world.workloads.values())
        assert len(steps) <= 10 + 4 * (classes + waiting), f"{len(steps)} steps for {classes} classes"
        return steps


class Contended:
    """A cohort with too little of everything, and random things that happen in it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = Bounded()
        self.number = 0
        self.names: list[str] = []
        world, choice = self.world, self.random.choice
        world.apply(*(flavor(name) for name in FLAVORS), *(_level(n) for n in range(LEVELS)))
        for name in QUEUES:
            mode = choice(("TryPreferredFlavors", "TryPreferredFlavors", "RetainFirstAdmission", ""))
            policy = self.policy(mode)
            preemption = {
                "withinClusterQueue": choice(("LowerPriority", "LowerOrNewerEqualPriority", "Never")),
                "reclaimWithinCohort": choice(("Any", "Any", "LowerPriority", "Never")),
            }
            amounts = {name: self.random.randint(0, 6) for name in FLAVORS}
            world.apply(
                cluster_queue(amounts, policy, name=name, cohortName="all", preemption=preemption),
                local_queue(name, name),
            )
        world.settle_all()

    def policy(self, mode: str) -> dict[str, Any]:
        return {"migration": {"mode": mode}} if mode else {}

    def play(self, actions: int) -> None:
        for _ in range(actions):
            self.act()
            self.world.settle_all(self.random.choice((0, 0, 1, 400)))
            assert not (wrong := violations(self.world.services["scheduler"].state)), wrong

    def act(self) -> None:
        running = [name for name in self.names if self.world.flavor_of(name)]
        what = self.random.random()
        if what < 0.6 or not running:
            self.number += 1
            manifest = job(
                f"j{self.number}",
                self.random.choice((1, 2, 3, 5)),
                priority_class=f"p{self.random.randrange(LEVELS)}",
            )
            manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = self.random.choice(QUEUES)
            self.names.append(f"j{self.number}")
            self.world.message(f"job.default.j{self.number}", "JobSubmitted", manifest)
            return
        name = self.random.choice(running)
        kind = "JobFinished" if what < 0.95 else "JobStopped"
        self.world.report(name, kind, **({"success": True} if kind == "JobFinished" else {}))
        if kind == "JobFinished":
            self.names.remove(name)


class Sharing(Contended):
    """Each variant may use two flavors, of which the next one has one, too."""

    def __init__(self, seed: int) -> None:
        self.view, self.seen = View(), 0
        super().__init__(seed)

    def policy(self, mode: str) -> dict[str, Any]:
        variants = [
            {"name": "best", "allowedResourceFlavors": ["res", "od"]},
            {"name": "rest", "allowedResourceFlavors": ["od", "spot"]},
        ]
        return {"migration": {"mode": mode}, "explicitVariants": variants} if mode else {}

    def act(self) -> None:
        """Compare what the view shows as reserved with what the scheduler charges, and go on."""
        for seq, _, event in self.world.history[self.seen :]:
            self.view.apply(event, seq, self.world.now)
        self.seen = len(self.world.history)
        for name, queue in self.world.services["scheduler"].state.world.cluster_queues.items():
            assert dict(sorted(self.view.cluster_queues[name].reservation.items())) == queue.node.usage
        super().act()


def _level(number: int) -> dict[str, Any]:
    return priority_class(f"p{number}", number * 100)


@pytest.mark.parametrize("seed", SEEDS)
def test_contended_families_come_to_rest(seed: int) -> None:
    """Decisions settle in steps bounded by who waits, and jobs do not stop each other for ever."""
    contended = Contended(seed)
    contended.play(ACTIONS)
    assert not (wrong := wrong_with(contended.world.log)), wrong


@pytest.mark.parametrize("seed", range(200, 206))
def test_what_families_share_is_charged_once_by_all(seed: int) -> None:
    """CA10: the view shows what the scheduler charges, whoever of a family holds, moves, or is preempted."""
    sharing = Sharing(seed)
    sharing.play(ACTIONS)
    assert not (wrong := wrong_with(sharing.world.log)), wrong
