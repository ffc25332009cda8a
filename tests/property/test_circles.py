"""Preemptions come to rest, whatever the policies: nothing goes round in a circle (SC5, decision 0018).

Executors stop at once, and nobody finishes between one thing that happens and the next: whatever workloads
can take from each other in turn, they take without end. Driven by a seed: what is drawn one by one makes
preemption too rare.
"""

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
import pytest

from sluice.core.scheduler.decider import Scheduler
from sluice.core.world.pending_preemptions import AFTER_CHECK
from sluice.events.base import Event, PodSet, WorkloadKey
from sluice.events.checks import ChecksReady, PreemptionsAllowed
from sluice.events.ids import uid
from sluice.events.scheduler import Admitted, Preempted
from sluice.events.slices import WorkloadCreated, WorkloadFinished, WorkloadRecord, WorkloadStopped
from tests.support.objects import applied, configuration, kueue_object, local_queue
from tests.support.scheduler_history import FLAVORS, SECOND, Player, admission_check

QUEUES = ("a", "b", "c", "d")
ACTIONS = 25
ROUNDS = 60
"""So often at most executors stop what was evicted, until all is at rest."""
TIMES = 2
"""So often one preempts another at most before it has quota: once more than should be needed."""
SEEDS = 300
"""Without the rules of decision 0018 a dozen of these never come to rest."""

STRATEGIES = (
    [],
    ["LessThanOrEqualToFinalShare"],
    ["LessThanInitialShare"],
    ["LessThanInitialShare", "LessThanOrEqualToFinalShare"],
)


class Crowd:
    """A cell with too little of everything, made from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.player = Player()
        self.number = 0
        self.flavors = (*FLAVORS, "reserved")[: self.random.choice((1, 1, 2, 3))]
        self.checked = self.random.random() < 0.2
        fair: dict[str, Any] = {"enable": self.random.random() < 0.35}
        fair["preemptionStrategies"] = self.random.choice(STRATEGIES)
        gates = {"PrioritizePreemptorWorkloads": True} if self.random.random() < 0.1 else {}
        objects: list[dict[str, Any]] = [
            configuration(fairSharing=fair, featureGates=gates),
            *(kueue_object("ResourceFlavor", name) for name in self.flavors),
            admission_check("late", AFTER_CHECK),
            *(kueue_object("Cohort", name, {"parentName": "root"}) for name in ("left", "right")),
        ]
        objects += [self.queue(name) for name in QUEUES]
        objects += [local_queue(f"lq-{n}", n, "ns") for n in QUEUES]
        for manifest in objects:
            self.player.put(applied(manifest))
        self.rest()

    def queue(self, name: str) -> dict[str, Any]:
        choice, number = self.random.choice, self.random.randint
        flavors = []
        for flavor in self.random.sample(self.flavors, len(self.flavors)):
            quota: dict[str, Any] = {"name": "cpu", "nominalQuota": number(0, 8)}
            if self.random.random() < 0.15:
                quota["lendingLimit"] = number(0, quota["nominalQuota"])
            if self.random.random() < 0.15:
                quota["borrowingLimit"] = number(0, 6)
            flavors.append({"name": flavor, "resources": [quota]})
        borrow: dict[str, Any] = {"policy": choice(("LowerPriority", "Never"))}
        if borrow["policy"] == "LowerPriority" and self.random.random() < 0.5:
            borrow["maxPriorityThreshold"] = choice((0, 1, 2))
        spec: dict[str, Any] = {
            "cohortName": choice(("root", "root", "left", "right")),
            "namespaceSelector": {},
            "queueingStrategy": choice(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
            "fairSharing": {"weight": choice(("1", "1", "2"))},
            "preemption": {
                "withinClusterQueue": choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
                "reclaimWithinCohort": choice(("Never", "LowerPriority", "Any", "Any")),
                "borrowWithinCohort": borrow,
            },
            "flavorFungibility": {
                "whenCanBorrow": choice(("MayStopSearch", "TryNextFlavor")),
                "whenCanPreempt": choice(("MayStopSearch", "TryNextFlavor")),
            },
        }
        if self.checked and self.random.random() < 0.5:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": "late"}]}
        return kueue_object("ClusterQueue", name, spec)

    def play(self, actions: int) -> None:
        for _ in range(actions):
            self.act()
            before = len(self.player.events(Admitted, Preempted))
            self.rest()
            assert not (wrong := circles_in(self.player.events(Admitted, Preempted)[before:])), wrong

    def act(self) -> None:
        workloads = self.player.state.world.workloads
        held = sorted(key for key, w in workloads.items() if w.admitted_at is not None)
        if held and self.random.random() < 0.3:
            self.player.put(WorkloadFinished(cause=0, workload=self.random.choice(held)))
            return
        self.number += 1
        if held and self.random.random() < 0.15 and self.grow(self.random.choice(held)):
            return
        choice = self.random.choice
        count = self.random.randint(1, 4)
        pods = PodSet(
            name="main",
            count=count,
            requests={"cpu": 1000 * self.random.randint(1, 2)},
            min_count=1 if self.random.random() < 0.1 else None,
        )
        record = WorkloadRecord(
            namespace="ns",
            name=f"w{self.number}",
            uid=uid(self.number),
            queue_name=f"lq-{choice(QUEUES)}",
            created_at=self.player.now,
            pod_sets=(pods,),
            priority=choice((0, 1, 1, 2, 3)),
        )
        self.player.put(WorkloadCreated(cause=0, workload=record))

    def grow(self, key: WorkloadKey) -> bool:
        """Ask for a larger slice of a workload, unless one waits already or it can run with fewer pods."""
        world = self.player.state.world
        record = world.workloads[key].record
        pods = record.pod_sets[0]
        if key in world.replacements or pods.min_count is not None:
            return False
        larger = msgspec.structs.replace(pods, count=pods.count + self.random.randint(1, 2))
        record = msgspec.structs.replace(
            record,
            name=f"w{self.number}",
            uid=uid(self.number),
            created_at=self.player.now,
            pod_sets=(larger,),
            replaces=key,
        )
        self.player.put(WorkloadCreated(cause=0, workload=record))
        return True

    def stop(self, key: WorkloadKey) -> None:
        """The job stops as a whole, so that a larger slice of it is all that is left (WS6)."""
        self.player.put(WorkloadStopped(cause=0, workload=key))
        if key in self.player.state.world.replacements:
            self.player.put(WorkloadFinished(cause=0, workload=key))

    def rest(self) -> None:
        """Let executors stop what was evicted and checks say yes, and time pass, until nothing happens."""
        player = self.player
        workloads = player.state.world.workloads
        for _ in range(ROUNDS):
            player.settle()
            evicted = sorted(k for k, w in workloads.items() if w.evicted_at is not None and not w.stopped)
            for key in evicted:
                self.stop(key)
            waiting = sorted(k for k, w in workloads.items() if w.assignment is not None and not w.checks)
            waiting = [k for k in waiting if workloads[k].admitted_at is None]
            for key in waiting:
                attempt = workloads[key].reservations
                player.put(
                    PreemptionsAllowed(cause=0, workload=key, attempt=attempt, reason="PreemptionRequired")
                )
                player.put(ChecksReady(cause=0, workload=key, attempt=attempt))
            if evicted or waiting:
                continue
            deadline = Scheduler().deadline(player.state)
            if deadline is None:
                return
            player.now = max(player.now + SECOND, deadline)
        raise AssertionError("preemptions go on and on")


def circles_in(events: Iterable[Event]) -> list[str]:
    """Return who preempts those that have preempted it, and who is preempted by another too often."""
    by: dict[WorkloadKey, set[WorkloadKey]] = {}
    times: Counter[tuple[WorkloadKey, WorkloadKey]] = Counter()
    wrong = []
    for event in events:
        if isinstance(event, Admitted):
            for pair in [pair for pair in times if pair[0] == event.workload]:
                del times[pair]
        if not isinstance(event, Preempted):
            continue
        by.setdefault(event.workload, set()).add(event.preemptor)
        times[event.preemptor, event.workload] += 1
        if event.workload in _before(by, event.preemptor):
            wrong.append(f"{event.preemptor} preempts {event.workload}, which has preempted it")
        if times[event.preemptor, event.workload] > TIMES:
            wrong.append(f"{event.preemptor} preempts {event.workload} again and again")
    return wrong


def _before(by: dict[WorkloadKey, set[WorkloadKey]], key: WorkloadKey) -> set[WorkloadKey]:
    found: set[WorkloadKey] = set()
    todo = [key]
    while todo:
        for other in by.get(todo.pop(), ()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_preemptions_come_to_rest(first: int) -> None:
    """Until the next input nobody preempts who has preempted it, nor the same one over and over."""
    for seed in range(first, first + 50):
        crowd = Crowd(seed)
        try:
            crowd.play(ACTIONS)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        if seed % 10 == 0:
            crowd.player.verify()
