"""Random histories of a cell whose queues have admission checks and too little quota (AC6, AC7).

Driven by a seed: what is drawn one by one makes preemption too rare, since so much must come together.
"""

from random import Random
from typing import Any

from sluice.core.world.pending_preemptions import AFTER_CHECK, ANYTIME
from sluice.events.base import PodSet, WorkloadKey
from sluice.events.config import ObjectDeleted
from sluice.events.ids import uid
from sluice.events.slices import (
    ReclaimablePodsUpdated,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadRecord,
    WorkloadStopped,
    WorkloadUpdated,
)
from tests.support.objects import applied, configuration, kueue_object, local_queue
from tests.support.scheduler_history import CHECKS, FLAVORS, SECOND, Player, admission_check, answer

QUEUES = ("a", "b", "c")
COHORTS = ("root", "left")


class Contended:
    """A cell made from a seed, and random things that happen in it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.player = Player()
        self.number = 0
        self.late = AFTER_CHECK
        flavors = self.random.choice([FLAVORS[:1], FLAVORS])
        self.flavors = flavors
        objects = [
            configuration(fairSharing={"enable": self.random.random() < 0.2}),
            *(kueue_object("ResourceFlavor", name) for name in FLAVORS),
            admission_check("early", ANYTIME),
            admission_check("late", AFTER_CHECK),
            kueue_object("Cohort", "left", {"parentName": "root"}),
            *(self.queue(name) for name in QUEUES),
            *(local_queue(f"lq-{name}", name, "ns") for name in QUEUES),
        ]
        for manifest in objects:
            self.player.put(applied(manifest))
        self.player.settle()

    def queue(self, name: str) -> dict[str, Any]:
        choice = self.random.choice
        quotas = []
        for flavor in self.flavors:
            quota: dict[str, Any] = {"name": "cpu", "nominalQuota": self.random.randint(2, 10)}
            if self.random.random() < 0.2:
                quota["lendingLimit"] = self.random.randint(0, quota["nominalQuota"])
            if self.random.random() < 0.2:
                quota["borrowingLimit"] = self.random.randint(0, 5)
            quotas.append({"name": flavor, "resources": [quota]})
        strategy = choice(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"])
        reclaim = choice(["Any", "Any", "LowerPriority", "Never"])
        names = choice([("late",), ("late",), ("late",), CHECKS, ("early",), ()])
        on_flavors = choice([(), (), (), FLAVORS[:1]])
        rules = [{"name": check, "onFlavors": on_flavors} for check in names]
        return kueue_object(
            "ClusterQueue",
            name,
            {
                "cohortName": choice(COHORTS),
                "namespaceSelector": {},
                "queueingStrategy": strategy,
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
                "preemption": {
                    "withinClusterQueue": choice(["LowerPriority", "LowerOrNewerEqualPriority"]),
                    "reclaimWithinCohort": reclaim,
                    "borrowWithinCohort": {"policy": choice(["LowerPriority", "Never"])},
                },
                "flavorFungibility": {
                    "whenCanBorrow": choice(["MayStopSearch", "TryNextFlavor"]),
                    "whenCanPreempt": choice(["MayStopSearch", "TryNextFlavor"]),
                },
                "admissionChecksStrategy": {"admissionChecks": rules},
            },
        )

    def play(self, actions: int) -> Player:
        """Let *actions* random things happen, settling now and then."""
        for _ in range(actions):
            self.act()
            if self.random.random() < 0.7:
                self.player.settle()
        self.player.settle()
        self.player.verify()
        return self.player

    def act(self) -> None:
        choice, put = self.random.choice, self.player.put
        workloads = self.player.state.world.workloads
        held = sorted(key for key, w in workloads.items() if w.assignment is not None)
        admitted = [key for key in held if workloads[key].admitted_at is not None]
        reserved = [key for key in held if workloads[key].admitted_at is None]
        evicted = [key for key in admitted if workloads[key].evicted_at is not None]
        kinds = ["submit"] * 4 + ["config"]
        kinds += ["verdict"] * 6 if reserved else []
        kinds += ["stop"] * 3 if evicted else []
        kinds += ["finish", "reclaim"] if admitted else []
        kinds += ["update", "delete"] if held else []
        match choice(kinds):
            case "submit":
                self.submit()
            case "config":
                self.configure()
            case "verdict":
                self.verdict(choice(reserved))
            case "stop":
                put(WorkloadStopped(cause=0, workload=choice(evicted)))
            case "finish":
                put(WorkloadFinished(cause=0, workload=choice(admitted)))
            case "reclaim":
                key = choice(admitted)
                count = self.random.randint(0, workloads[key].record.pod_sets[0].count)
                put(ReclaimablePodsUpdated(cause=0, workload=key, pods={"main": count}))
            case "update":
                put(WorkloadUpdated(cause=0, workload=choice(held), priority=choice([0, 5, 10])))
            case "delete":
                put(WorkloadDeleted(cause=0, workload=choice(held)))

    def submit(self) -> None:
        self.number += 1
        number, choice = self.number, self.random.choice
        pod_set = PodSet(
            name="main", count=self.random.randint(1, 3), requests={"cpu": 1000 * self.random.randint(1, 4)}
        )
        record = WorkloadRecord(
            namespace="ns",
            name=f"w{number}",
            uid=uid(number),
            queue_name=f"lq-{choice(QUEUES)}",
            created_at=self.player.now,
            pod_sets=(pod_set,),
            priority=choice([0, 0, 5, 10, 20]),
            cannot_preempt=self.random.random() < 0.05,
            cannot_borrow=self.random.random() < 0.05,
        )
        self.player.put(WorkloadCreated(cause=0, workload=record))

    def configure(self) -> None:
        what = self.random.random()
        if what < 0.4:
            self.player.put(applied(self.queue(self.random.choice(QUEUES))))
        elif what < 0.5:
            self.player.put(ObjectDeleted(cause=0, kind="ClusterQueue", name=self.random.choice(QUEUES)))
        elif what < 0.7:
            self.player.now += 20 * SECOND
        else:
            self.late = ANYTIME if self.late == AFTER_CHECK and what < 0.8 else AFTER_CHECK
            self.player.put(applied(admission_check("late", self.late)))

    def verdict(self, key: WorkloadKey) -> None:
        """Let the checks of a workload say something; about an older reservation at times."""
        stale = self.random.random() < 0.1
        attempt = self.player.state.world.workloads[key].reservations - stale
        self.player.put(
            answer(
                self.random.choice(["allow"] * 4 + ["ready"] * 4 + ["pending", "retry", "rejected"]),
                key,
                attempt,
                self.player.now,
            )
        )
