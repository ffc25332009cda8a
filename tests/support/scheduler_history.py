"""Random histories of a small cell, played against the scheduler's pure core."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec
from hypothesis import strategies as st

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.pending_preemptions import AFTER_CHECK, ANYTIME
from sluice.events.base import Event, Micros, PodSet, WorkloadKey
from sluice.events.checks import ChecksPending, ChecksReady, ChecksRejected, ChecksRetry, PreemptionsAllowed
from sluice.events.codec import decode_commit
from sluice.events.commit import Step
from sluice.events.config import ObjectDeleted
from sluice.events.ids import uid
from sluice.events.slices import (
    ReclaimablePodsUpdated,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadPodsReady,
    WorkloadRecord,
    WorkloadStopped,
    WorkloadUpdated,
)

from .memory_log import SECOND, Alone
from .objects import applied, kueue_object, local_queue


@dataclass(frozen=True)
class Part:
    """What one message or one step says, and what it was decided from."""

    own: bool
    """Decided by the scheduler."""
    events: Sequence[Event]
    upto: int
    seq: int
    at: Micros


@dataclass
class Player(Alone):
    """The scheduler, and time that passes with each message; each step has a commit of its own."""

    now: Micros = SECOND

    def __post_init__(self) -> None:
        self.serve(Scheduler())

    @property
    def state(self) -> SchedulerState:
        found: SchedulerState = self.service.state
        return found

    def put(self, *events: Event) -> Self:
        self.now += 1000
        return super().put(*events)

    def commit(self, writer: str, steps: Sequence[Step]) -> int:
        return [super(Player, self).commit(writer, [step]) for step in steps][-1]

    def parts(self) -> Iterator[Part]:
        for entry in self.log:
            own = entry.suffix == "scheduler"
            for step in decode_commit(entry.payload).steps:
                yield Part(own, step.events, step.upto if own else entry.seq, entry.seq, step.at)

    def decide_again(self) -> SchedulerState:
        """Decide at every step of the log: it comes out as it is, and nothing is left behind.

        In settled states, before an input, a snapshot takes the state's place.
        """
        scheduler, state, settled = Scheduler(), Scheduler().initial(), True
        for part in self.parts():
            before = scheduler.dump(state)
            if part.own:
                decided = tuple(scheduler.decide(state, part.at))
                assert msgspec.json.encode(decided) == msgspec.json.encode(part.events)
                assert scheduler.dump(state) == before, "decide left something behind"
            elif settled:
                state = scheduler.load(before)
                assert scheduler.dump(state) == before
            for event in part.events:
                scheduler.apply(state, event, part.upto, part.at)
            settled = part.own
        assert scheduler.dump(state) == scheduler.dump(self.state)
        return state


# Configurations

FLAVORS = ("on-demand", "spot")
COHORTS = ("root", "left", "right")
QUEUES = ("a", "b", "c", "d")
CHECKS = ("early", "late")
"""The second one's policy is that nobody is preempted before it allows it, at first."""


def quantity(low: int = 0, high: int = 12) -> st.SearchStrategy[int]:
    return st.integers(low, high)


@st.composite
def resource_groups(draw: st.DrawFn, *, limits: bool) -> list[dict[str, Any]]:
    flavors = draw(st.sampled_from([FLAVORS[:1], FLAVORS]))
    resources = draw(st.sampled_from([("cpu",), ("cpu", "gpu")]))
    entries = []
    for flavor in flavors:
        quotas = []
        for resource in resources:
            quota: dict[str, Any] = {"name": resource, "nominalQuota": draw(quantity())}
            if limits and draw(st.booleans()):
                quota["borrowingLimit"] = draw(quantity(0, 6))
            if limits and draw(st.booleans()):
                quota["lendingLimit"] = draw(quantity(0, quota["nominalQuota"]))
            quotas.append(quota)
        entries.append({"name": flavor, "resources": quotas})
    return [{"coveredResources": list(resources), "flavors": entries}]


@st.composite
def cluster_queue(draw: st.DrawFn, name: str) -> dict[str, Any]:
    cohort = draw(st.sampled_from(["", "root", "left", "right", "left"]))
    preemption: dict[str, Any] = {
        "withinClusterQueue": draw(
            st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority", "LowerPriority"])
        ),
        "reclaimWithinCohort": draw(st.sampled_from(["Never", "LowerPriority", "Any", "Any"])),
    }
    if draw(st.booleans()):
        preemption["borrowWithinCohort"] = {"policy": "LowerPriority"}
    return kueue_object(
        "ClusterQueue",
        name,
        {
            "cohortName": cohort,
            "namespaceSelector": {},
            "queueingStrategy": draw(st.sampled_from(["BestEffortFIFO", "StrictFIFO", "BestEffortFIFO"])),
            "resourceGroups": draw(resource_groups(limits=bool(cohort))),
            "preemption": preemption,
            "flavorFungibility": {
                "whenCanBorrow": draw(st.sampled_from(["MayStopSearch", "TryNextFlavor"])),
                "whenCanPreempt": draw(st.sampled_from(["MayStopSearch", "TryNextFlavor"])),
            },
            "stopPolicy": draw(st.sampled_from(["None"] * 6 + ["Hold", "HoldAndDrain"])),
            "admissionChecksStrategy": {"admissionChecks": draw(check_rules())},
        },
    )


@st.composite
def check_rules(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.sampled_from([(), (), ("late",), ("late",), ("early",), CHECKS]))
    flavors = draw(st.sampled_from([(), (), FLAVORS[:1]]))
    return [{"name": name, "onFlavors": flavors} for name in names]


def admission_check(name: str, policy: str) -> dict[str, Any]:
    return kueue_object("AdmissionCheck", name, {"controllerName": "c", "preemptionPolicy": policy})


@st.composite
def configuration(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {"fairSharing": {"enable": draw(st.booleans())}}
    if draw(st.integers(0, 4)) == 0:
        spec["waitForPodsReady"] = {
            "enable": True,
            "timeoutSeconds": 30,
            "blockAdmission": draw(st.booleans()),
        }
    return kueue_object("Configuration", "default", spec)


@st.composite
def setup(draw: st.DrawFn) -> list[Event]:
    objects = [draw(configuration())]
    objects += [kueue_object("ResourceFlavor", name) for name in FLAVORS]
    objects += [admission_check("early", "Anytime"), admission_check("late", AFTER_CHECK)]
    for name, parent in zip(COHORTS, ("", "root", "root"), strict=True):
        if draw(st.booleans()) or parent:
            spec: dict[str, Any] = {"parentName": parent}
            if draw(st.booleans()):
                spec["resourceGroups"] = draw(resource_groups(limits=bool(parent)))
            objects.append(kueue_object("Cohort", name, spec))
    names = QUEUES[: draw(st.integers(1, len(QUEUES)))]
    objects += [draw(cluster_queue(name)) for name in names]
    objects += [local_queue(f"lq-{n}", n, "ns") for n in QUEUES]
    return [applied(manifest) for manifest in objects]


# Actions


@st.composite
def record(draw: st.DrawFn, number: int) -> WorkloadRecord:
    count = draw(st.integers(1, 4))
    requests = {"cpu": 1000 * draw(st.integers(1, 5))}
    if draw(st.integers(0, 4)) == 0:
        requests["gpu"] = draw(st.integers(0, 2))
    partial = draw(st.integers(0, 4)) == 0
    return WorkloadRecord(
        namespace="ns",
        name=f"w{number}",
        uid=uid(number + 1),
        queue_name=f"lq-{draw(st.sampled_from(QUEUES))}",
        created_at=draw(st.integers(1, 5)) * SECOND,
        pod_sets=(PodSet(name="main", count=count, requests=requests, min_count=1 if partial else None),),
        priority=draw(st.sampled_from([0, 0, 10, 20])),
        active=draw(st.integers(0, 9)) != 0,
        maximum_execution_time_s=draw(st.sampled_from([None] * 6 + [20])),
        preemption_gates=("gate",) if draw(st.integers(0, 9)) == 0 else (),
    )


def act(player: Player, data: st.DataObject) -> None:
    """Do one random thing."""
    workloads = player.state.world.workloads
    running = sorted(k for k, w in workloads.items() if w.assignment is not None)
    evicted = sorted(k for k, w in workloads.items() if w.evicted_at is not None and not w.stopped)
    kinds = ["submit"] * 5 + ["config", "time"]
    kinds += ["finish"] * 3 + ["pods"] if running else []
    kinds += ["stop"] * 6 if evicted else []
    reserved = sorted(k for k, w in workloads.items() if w.assignment is not None and w.admitted_at is None)
    kinds += ["verdict"] * 6 if reserved else []
    kinds += ["update", "delete"] if workloads else []
    kind = data.draw(st.sampled_from(kinds))
    if kind == "submit":
        for _ in range(data.draw(st.integers(1, 3))):
            player.put(WorkloadCreated(cause=0, workload=data.draw(record(player.seq))))
    elif kind == "config":
        player.put(data.draw(config_change()))
    elif kind == "time":
        player.now += data.draw(st.integers(1, 120)) * SECOND
    elif kind == "finish":
        player.put(WorkloadFinished(cause=0, workload=data.draw(st.sampled_from(running))))
    elif kind == "pods":
        _pods(player, data, data.draw(st.sampled_from(running)))
    elif kind == "stop":
        player.put(WorkloadStopped(cause=0, workload=data.draw(st.sampled_from(evicted))))
    elif kind == "verdict":
        verdict(player, data, data.draw(st.sampled_from(reserved)))
    elif kind == "update":
        _update(player, data, data.draw(st.sampled_from(sorted(workloads))))
    elif kind == "delete":
        player.put(WorkloadDeleted(cause=0, workload=data.draw(st.sampled_from(sorted(workloads)))))


def _pods(player: Player, data: st.DataObject, key: Any) -> None:
    what = data.draw(st.sampled_from(["ready", "lost", "reclaim", "scale", "check"]))
    workload = player.state.world.workloads[key]
    pod_set = workload.record.pod_sets[0]
    if what in ("ready", "lost"):
        player.put(WorkloadPodsReady(cause=0, workload=key, ready=what == "ready"))
    elif what == "reclaim":
        pods = {"main": data.draw(st.integers(0, pod_set.count))}
        player.put(ReclaimablePodsUpdated(cause=0, workload=key, pods=pods))
    elif what == "scale" and pod_set.min_count is None:
        smaller = msgspec.structs.replace(pod_set, count=data.draw(st.integers(1, pod_set.count)))
        player.put(WorkloadUpdated(cause=0, workload=key, pod_sets=(smaller,)))
    elif what == "check":
        kind = data.draw(st.sampled_from([ChecksReady, ChecksRetry, ChecksRejected]))
        fields: dict[str, Any] = {"cause": 0, "workload": key}
        if kind is not ChecksReady:
            fields["checks"] = ("c",)
        if kind is ChecksRetry:
            fields["requeue_at"] = player.now + 5 * SECOND
        player.put(kind(**fields))


def verdict(player: Player, data: st.DataObject, key: Any) -> None:
    """Let the checks of a workload say something, about an older reservation at times."""
    attempt = player.state.world.workloads[key].reservations - data.draw(st.sampled_from([0] * 6 + [1]))
    what = data.draw(st.sampled_from(["allow"] * 3 + ["ready"] * 4 + ["pending", "retry", "rejected"]))
    player.put(answer(what, key, attempt, player.now))


def answer(what: str, key: WorkloadKey, attempt: int, now: Micros) -> Event:
    """Return what the checks of a workload say of an attempt."""
    match what:
        case "allow":
            return PreemptionsAllowed(cause=0, workload=key, attempt=attempt, reason="PreemptionRequired")
        case "ready":
            return ChecksReady(cause=0, workload=key, attempt=attempt)
        case "pending":
            return ChecksPending(cause=0, workload=key, attempt=attempt)
        case "retry":
            at = now + 5 * SECOND
            return ChecksRetry(cause=0, workload=key, attempt=attempt, checks=("late",), requeue_at=at)
        case _:
            return ChecksRejected(cause=0, workload=key, attempt=attempt, checks=("late",))


def _update(player: Player, data: st.DataObject, key: Any) -> None:
    what = data.draw(st.sampled_from(["active", "priority", "queue"]))
    changes: dict[str, Any] = {}
    if what == "active":
        changes["active"] = data.draw(st.booleans())
    elif what == "priority":
        changes["priority"] = data.draw(st.sampled_from([0, 10, 20]))
    elif player.state.world.workloads[key].assignment is None:
        changes["queue_name"] = f"lq-{data.draw(st.sampled_from(QUEUES))}"
    player.put(WorkloadUpdated(cause=0, workload=key, **changes))


@st.composite
def config_change(draw: st.DrawFn) -> Event:
    what = draw(st.sampled_from(["queue", "queue", "cohort", "flavor", "gone", "local", "settings", "check"]))
    if what == "check":
        name, policy = draw(st.sampled_from(CHECKS)), draw(st.sampled_from([ANYTIME, AFTER_CHECK]))
        return applied(admission_check(name, policy))
    if what == "queue":
        return applied(draw(cluster_queue(draw(st.sampled_from(QUEUES)))))
    if what == "cohort":
        spec: dict[str, Any] = {"resourceGroups": draw(resource_groups(limits=False))}
        return applied(kueue_object("Cohort", "root", spec))
    if what == "flavor":
        return applied(kueue_object("ResourceFlavor", draw(st.sampled_from(FLAVORS))))
    if what == "gone":
        kind, names = draw(
            st.sampled_from([("ClusterQueue", QUEUES), ("ResourceFlavor", FLAVORS), ("Cohort", COHORTS)])
        )
        return ObjectDeleted(cause=0, kind=kind, name=draw(st.sampled_from(names)))
    if what == "local":
        name = draw(st.sampled_from(QUEUES))
        spec = {
            "clusterQueue": name,
            "stopPolicy": draw(st.sampled_from(["None", "None", "Hold", "HoldAndDrain"])),
        }
        return applied(kueue_object("LocalQueue", f"lq-{name}", spec, namespace="ns"))
    return applied(draw(configuration()))


def play(data: st.DataObject, actions: int) -> Player:
    """Set up a random cell and let *actions* random things happen, settling now and then."""
    player = Player()
    for event in data.draw(setup()):
        player.put(event)
    player.settle()
    for _ in range(actions):
        act(player, data)
        if data.draw(st.integers(0, 2)):
            player.settle()
    player.settle()
    player.verify()
    return player
