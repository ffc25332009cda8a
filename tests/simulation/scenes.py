"""Openings of runs: small worlds in which a few things that are rare alone happen together, with variations.

A scene brings the cell near states that random histories hardly ever reach, such as a growth that is taken
back in the cycle that admits it. From there the run goes on at random, for longer or shorter.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sluice.api.kueue import PodSetUpdate
from sluice.events.checks import ChecksRetry
from sluice.events.scheduler import (
    BlockedOnPreemptionGates,
    QuotaReleased,
)
from sluice.events.slices import WorkloadStopped
from sluice.sdk.checks import Ready, Rejected, Retry

from .choices import Choices
from .grammar import Manifest
from .replica import Replica
from .stage import ALL, Stage, check, completed, queue, quotas, racing, settings

EVERY = 4
"""Every so many seeds open with a scene."""
LENGTHS = (60, 20, 300, 1000)
"""So many steps may follow, at most."""

ANY_LOWER = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
LATE = "AfterCheckPassedOrOnDemand"
ELASTIC = {"elastic_job": "true"}


@dataclass(frozen=True)
class Scene:
    what: str
    objects: Callable[[Choices], list[Manifest]]
    play: Callable[[Stage], None]
    on: tuple[str, ...] = ()
    """Features that it cannot do without."""

    def world(self, choices: Choices) -> list[Manifest]:
        return completed(self.objects(choices))


# Searches


def _flavors(choices: Choices) -> list[Manifest]:
    if choices.chance(0.5):
        return [queue("q0", quotas(f0=3, f1=4, f2=1))]
    return [queue("q0", quotas(f0=2, f1=3))]


def _several_sets(stage: Stage) -> None:
    """What is free decides which flavor the first set takes, and so what is left for the second."""
    three = stage.cell.objects.get("ResourceFlavor", "f2") is not None
    stage.submit("j0", cpu=1)
    stage.settle()
    stage.submit("j1", sets=((1, 3), (2, 2)) if three else ((1, 2), (1, 3)))
    stage.settle()
    stage.end("j0")
    stage.settle()


def _ready_first(choices: Choices) -> list[Manifest]:
    wait = {"enable": True, "timeoutSeconds": 300, "blockAdmission": True}
    policy = racing(choices.pick(("TryPreferredFlavors", "RetainFirstAdmission")))
    return [
        settings(waitForPodsReady=wait),
        queue("q0", quotas(f0=6, f1=5, f2=3), concurrentAdmissionPolicy=policy),
    ]


def _siblings_wait(stage: Stage) -> None:
    """Variants wait for pods of others to be ready, and search meanwhile."""
    stage.submit("j0", cpu=1)
    stage.settle()
    stage.starts = ("j0",)
    stage.submit("j1", cpu=4)
    stage.settle()
    stage.submit("j2", sets=((1, 1), (1, 2)))
    stage.settle()
    stage.submit("j3", cpu=1)
    stage.settle()
    stage.end("j0")
    stage.settle()
    stage.starts = ALL
    stage.settle()


def _blockers(choices: Choices) -> list[Manifest]:
    more: Manifest = {"preemption": {"reclaimWithinCohort": "LowerPriority"}} if choices.chance(0.3) else {}
    return [
        queue("q0", quotas(f0=4, f1=4), cohort="c0", queueingStrategy="StrictFIFO", **more),
        queue("q1", quotas(f0=0, f1=0), cohort="c0"),
    ]


def _blocker(stage: Stage) -> None:
    """The head of a StrictFIFO queue keeps what it waits for from those who borrow."""
    if stage.choices.chance(0.5):
        _blocker_goes(stage)
        return
    for n in (0, 1):
        stage.submit(f"j{n}", "q1", 2, workload_allowed_resource_flavors=f"f{n}")
    stage.settle()
    stage.submit("j2", "q0", priority="high", sets=((1, 1), (1, 4)))
    if stage.choices.chance(0.5):
        stage.settle()
    stage.submit("j3", "q1", 2)
    stage.settle()
    stage.submit("j4", "q1", 2)
    stage.settle()
    if stage.choices.chance(0.3):
        stage.cell.message("job.default.j2", "JobDeleted", {})
    stage.end("j1")
    stage.settle()


def _blocker_goes(stage: Stage) -> None:
    """It is deleted, switched off, overtaken or held, and what was kept for it can be lent again."""
    on = {"workload_allowed_resource_flavors": "f0"}
    stage.submit("j0", "q1", 2, **on)
    stage.settle()
    stage.submit("j1", "q0", 4, priority="middle", **on)
    stage.submit("j2", "q0", 1, priority="low", **on)
    stage.settle()
    stage.submit("j3", "q1", 1, **on)
    stage.settle()
    match stage.choices.below(4):
        case 0:
            stage.cell.message("job.default.j1", "JobDeactivated", {})
        case 1:
            stage.cell.message("job.default.j1", "JobDeleted", {})
        case 2:
            stage.submit("j4", "q0", 1, priority="high", **on)
        case _:
            stage.edit("ClusterQueue", "q0", stopPolicy="Hold")
    stage.settle()


# Preemption


def _crowd(choices: Choices) -> list[Manifest]:
    """Return four queues that need not agree on who comes first (decision 0018)."""
    flavors = ("f0", "f1", "f2")[: choices.pick((1, 1, 2, 3))]
    found = []
    for n in range(4):
        own: dict[str, int | Manifest] = {}
        for name in flavors:
            quota: Manifest = {"nominalQuota": choices.between(0, 8)}
            if choices.chance(0.15):
                quota["lendingLimit"] = choices.between(0, quota["nominalQuota"])
            if choices.chance(0.15):
                quota["borrowingLimit"] = choices.between(0, 6)
            own[name] = quota
        borrow: Manifest = {"policy": choices.pick(("LowerPriority", "Never"))}
        if borrow["policy"] == "LowerPriority" and choices.chance(0.5):
            borrow["maxPriorityThreshold"] = choices.pick((0, 100, 200))
        reclaim = choices.pick(("Any", "Any", "LowerPriority", "Never"))
        preemption: Manifest = {
            "withinClusterQueue": choices.pick(("LowerPriority", "LowerOrNewerEqualPriority", "Never")),
            "reclaimWithinCohort": reclaim,
        }
        if reclaim != "Never":
            preemption["borrowWithinCohort"] = borrow
        found.append(
            queue(
                f"q{n}",
                quotas(**own),
                cohort=choices.pick(("c0", "c0", "c1", "c2")),
                queueingStrategy=choices.pick(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
                preemption=preemption,
                flavorFungibility={
                    "whenCanBorrow": choices.pick(("MayStopSearch", "TryNextFlavor")),
                    "whenCanPreempt": choices.pick(("MayStopSearch", "TryNextFlavor")),
                },
            )
        )
    tree = [
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": name}, "spec": spec}
        for name, spec in (("c0", {}), ("c1", {"parentName": "c0"}), ("c2", {"parentName": "c0"}))
    ]
    fair = {"fairSharing": {"enable": True}} if choices.chance(0.35) else {}
    return [settings(**fair), *tree, *found]


def _all_against_all(stage: Stage) -> None:
    """One submission after another, and whatever can be taken from anybody is taken before the next."""
    choices = stage.choices
    for n in range(choices.between(8, 14)):
        stage.submit(
            f"j{n}",
            choices.pick(("q0", "q1", "q2", "q3")),
            choices.between(1, 4),
            cpu=choices.between(1, 2),
            priority=choices.pick(("middle", "low", "high")),
        )
        stage.settle()
        if choices.chance(0.2):
            stage.end(f"j{choices.below(n + 1)}")
            stage.settle()


def _at_odds(_: Choices) -> list[Manifest]:
    """Return queues of which each may take from another one, by rules of its own."""
    borrows: Manifest = {"policy": "LowerPriority"}
    own = {"withinClusterQueue": "LowerOrNewerEqualPriority"}
    first = {**own, "reclaimWithinCohort": "LowerPriority"}
    return [
        queue(
            "q0",
            quotas(f0=2),
            cohort="c0",
            preemption={**first, "borrowWithinCohort": {**borrows, "maxPriorityThreshold": 100}},
        ),
        queue(
            "q1",
            quotas(f0=5),
            cohort="c0",
            preemption={
                **own,
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {**borrows, "maxPriorityThreshold": -1},
            },
        ),
        queue("q2", quotas(f0=6), cohort="c0", preemption={"reclaimWithinCohort": "LowerPriority"}),
        queue("q3", quotas(f0=0), cohort="c0", preemption={**own, "reclaimWithinCohort": "Any"}),
    ]


_COME_AND_GO: tuple[tuple[str, str, int, int] | int, ...] = (
    ("q0", "middle", 3, 1), ("q0", "middle", 5, 1), ("q0", "middle", 6, 1), ("q0", "high", 4, 2),
    ("q3", "low", 2, 1), 4, ("q1", "low", 3, 2), ("q0", "high", 4, 1), ("q3", "middle", 2, 2),
    ("q0", "low", 2, 1), ("q1", "low", 1, 1), 6, ("q3", "low", 4, 2), ("q1", "low", 3, 1),
    ("q0", "middle", 2, 2), ("q1", "low", 5, 1), 3,
)  # fmt: skip
"""Found by `tests/property/test_circles.py`: (queue, priority, pods, cpu) of who comes, or the number of who
ends. What is free in the end would go round among five of them."""


def _come_and_go(stage: Stage) -> None:
    """Jobs come and end one by one, until rights to each other's place go round."""
    number = 0
    for each in _COME_AND_GO:
        if isinstance(each, int):
            stage.end(f"j{each}")
        else:
            to, priority, count, cpu = each
            fewest = {"fewest": 1} if number in (4, 6) else {}
            stage.submit(f"j{number}", to, count, cpu=cpu, priority=priority, **fewest)
            number += 1
        stage.settle()


def _in_vain(_: Choices) -> list[Manifest]:
    never = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
    return [
        queue("q0", quotas(f0=6), cohort="c0"),
        queue("q1", quotas(f0=4), cohort="c0", preemption=never),
        queue("q2", quotas(f0=5), cohort="c0", preemption=ANY_LOWER),
    ]


def _room_for_others(stage: Stage) -> None:
    """j3 takes back from j1, j4 preempts j3, and j1, which is older, would get the room first."""
    stage.submit("j0", "q0", 6)
    stage.submit("j1", "q1", 5, priority="middle")
    stage.submit("j2", "q2", 3, priority="middle")
    stage.settle()
    stage.submit("j3", "q2", 2, priority="low")
    stage.settle()
    stage.submit("j4", "q2", 5, priority="middle")
    stage.settle()


def _crosswise(_: Choices) -> list[Manifest]:
    spec: Manifest = {"concurrentAdmissionPolicy": racing(), "preemption": {"reclaimWithinCohort": "Any"}}
    return [
        queue("q0", quotas(f0=0, f1=2), cohort="c0", **spec),
        queue("q1", quotas(f1=0, f0=2), cohort="c1", **spec),
    ]


def _swapped(stage: Stage) -> None:
    """Each of two jobs runs where the other one would rather be, and is entitled to."""
    for n in stage.choices.pick(((0, 1), (1, 0))):
        stage.submit(f"j{n}", f"q{n}", 2)
        stage.settle()
    objects = stage.actions.grammar.objects
    first, second = objects["ClusterQueue", "q0"], objects["ClusterQueue", "q1"]
    stage.apply(
        {**first, "spec": {**first["spec"], "resourceGroups": [quotas(f0=2, f1=0)], "cohortName": "c0"}},
        {**second, "spec": {**second["spec"], "resourceGroups": [quotas(f1=2, f0=0)], "cohortName": "c0"}},
    )
    stage.settle()
    stage.wait(70)
    stage.settle()


def _neighbours(choices: Choices) -> list[Manifest]:
    return [
        queue("q0", quotas(f0=4, f1=4), cohort="c0", preemption=ANY_LOWER),
        queue("q1", quotas(f0=choices.pick((0, 2)), f1=0), cohort="c0", preemption=ANY_LOWER),
    ]


def _preemptor_waits(stage: Stage) -> None:
    """A preemptor waits for one victim of two, while others come and go beside it."""
    stage.submit("j0", "q0", 1, cpu=2, priority="low", workload_allowed_resource_flavors="f0")
    stage.submit("j1", "q0", 1, cpu=2, priority="low", workload_allowed_resource_flavors="f0")
    stage.submit("j2", "q0", 1, cpu=3, priority="high", workload_allowed_resource_flavors="f1")
    stage.settle()
    stage.stops = ()
    stage.submit("j3", "q0", 1, cpu=4, priority="high", workload_allowed_resource_flavors="f0")
    stage.settle()
    stage.submit("j4", "q0", 1, cpu=2, priority=stage.choices.pick(("low", "middle")))
    stage.settle()
    if stage.choices.chance(0.7):
        stage.end("j2")
        stage.settle()
    stage.stops = ("j0",)
    stage.submit(
        "j5", stage.choices.pick(("q1", "q0")), 1, cpu=2, priority=stage.choices.pick(("low", "middle"))
    )
    stage.settle()
    stage.stops = ALL


def _lenders(choices: Choices) -> list[Manifest]:
    return [
        queue("q0", quotas(f0=2), cohort="c0", preemption=ANY_LOWER),
        queue("q1", quotas(f0=choices.pick((2, 4))), cohort="c0", preemption=ANY_LOWER),
    ]


def _constrained(stage: Stage) -> None:
    """Who may run with fewer pods does not do so for a constraint alone."""
    constraint = stage.choices.pick(("cannot_borrow", "cannot_preempt"))
    if stage.choices.chance(0.5):
        stage.submit("j0", "q0", 1, cpu=1, priority="low")
        stage.settle()
    stage.submit("j1", "q0", stage.choices.pick((4, 3, 2)), fewest=1, priority="high", **{constraint: "true"})
    stage.settle()


# Checks


def _checked(choices: Choices) -> list[Manifest]:
    lender = queue("q1", quotas(f0=1), cohort="c0")
    checks = [check("check-a", "ctl-a")]
    spec: Manifest = {"preemption": {"withinClusterQueue": "LowerPriority"}} if choices.chance(0.7) else {}
    return [*checks, queue("q0", quotas(f0=4), cohort="c0", checks=["check-a"], **spec), lender]


def _borrowers(stage: Stage) -> None:
    """One that cannot borrow has reserved before others that do."""
    stage.answers = False
    stage.submit("j0", "q0", 1, cpu=3, priority="high", cannot_borrow="true")
    if stage.choices.chance(0.5):
        stage.settle()
    stage.submit("j1", "q0", 1, cpu=2, priority="low")
    stage.settle()
    stage.answer("check-a", Ready())
    stage.settle()
    stage.answers = True
    stage.settle()


def _reserving(_: Choices) -> list[Manifest]:
    wait = {"enable": True, "timeoutSeconds": 300, "blockAdmission": True}
    return [
        settings(waitForPodsReady=wait),
        check("check-a", "ctl-a"),
        queue("q0", quotas(f0=4), cohort="c0", checks=["check-a"]),
        queue("q1", quotas(f0=4), cohort="c0"),
    ]


def _only_reserves(stage: Stage) -> None:
    """Nobody waits for the pods of one that has a reservation only, least of all when that is given up."""
    stage.answers = False
    stage.submit("j0", "q0")
    stage.submit("j1", "q1")
    stage.settle()
    if stage.choices.chance(0.5):
        stage.cell.message("job.default.j0", "JobDeleted", {})
    else:
        stage.answer("check-a", Rejected())
    stage.settle()
    stage.answers = True


def _two_checks(_: Choices) -> list[Manifest]:
    return [
        check("check-a", "ctl-a"),
        check("check-b", "ctl-b"),
        queue("q0", quotas(f0=4), checks=["check-a", "check-b"]),
    ]


def _two_retries(stage: Stage) -> None:
    """Two checks ask to wait, the second for longer, and is heard of when the reservation is over.

    Or both are Ready, and the scheduler hears of that when one of their controllers is away already.
    """
    stage.answers = False
    stage.submit("j0", "q0")
    stage.settle()
    if stage.choices.chance(0.4):
        with stage.away("scheduler"):
            for name in ("check-a", "check-b"):
                stage.answer(name, Ready())
            stage.settle()
            stage.choices.pick(stage.cell.controllers).leave()
            for _ in range(2):  # until it is missed, and then until its checks are inactive
                stage.wait(stage.choices.pick((40, 40, 12)))
                stage.settle()
        stage.settle()
        stage.answers = True
        return
    delays = stage.choices.pick(((1, 30), (30, 1), (1, 200)))
    first, second = stage.choices.pick((("check-a", "check-b"), ("check-b", "check-a")))
    stage.answer(first, Retry(delays[0]))
    stage.until(ChecksRetry)
    if stage.choices.chance(0.8):
        stage.decides("scheduler")
    stage.answer(second, Retry(delays[1]))
    stage.settle()
    stage.wait(2)
    stage.settle()
    stage.answers = True


def _adding(choices: Choices) -> list[Manifest]:
    checks = [check("check-a", "ctl-a"), check("check-b", choices.pick(("ctl-b", "ctl-a")))]
    policy: Manifest = {"concurrentAdmissionPolicy": racing()} if choices.chance(0.3) else {}
    return [*checks, queue("q0", quotas(f0=4, f1=2), checks=["check-a", "check-b"], **policy)]


def _second_thoughts(stage: Stage) -> None:
    """A check adds to the pods, and before they start it has second thoughts, or does not count any more.

    Or another one would add more than a verdict may hold.
    """
    choices = stage.choices
    stage.answers = False
    stage.submit("j0", "q0", choices.between(1, 2), **(ELASTIC if choices.chance(0.3) else {}))
    stage.settle()
    selector = {"rack": "r0"} if choices.chance(0.7) else {}
    stage.answer("check-a", Ready((PodSetUpdate(name="main", labels={"by": "a"}, node_selector=selector),)))
    stage.settle()
    what = choices.below(4)
    if what == 3:
        notes = {"example.com/data": "x" * choices.pick((70_000, 70_000, 60_000))}
        stage.answer("check-b", Ready((PodSetUpdate(name="main", annotations=notes),)))
    elif what == 0:
        with stage.away("slices", *(("variants",) if choices.chance(0.3) else ())):
            stage.answer("check-b", Ready())
            stage.settle()
            stage.verdict("j0", "check-a", choices.pick(("Pending", "Pending", "Ready")))
            stage.settle()
    elif what == 1:
        only = {"admissionChecks": [{"name": "check-b"}]}
        stage.edit("ClusterQueue", "q0", admissionChecksStrategy=only if choices.chance(0.7) else None)
        stage.settle()
    else:
        stage.answer("check-b", Retry(choices.pick((1, 5))))
        stage.until(ChecksRetry)
        if choices.chance(0.5):
            only = {"admissionChecks": [{"name": "check-b"}]}
            stage.edit("ClusterQueue", "q0", admissionChecksStrategy=only)
        stage.settle()
        stage.wait(6)
    stage.answers = True
    stage.settle()


# Elastic jobs


def _elastic(choices: Choices) -> list[Manifest]:
    wait = {"waitForPodsReady": {"enable": True, "timeoutSeconds": 30}} if choices.chance(0.7) else {}
    return [
        settings(**wait),
        queue("q0", quotas(f0=choices.pick((3, 5))), cohort="c0"),
        queue("q1", quotas(f0=3), cohort="c0", preemption=ANY_LOWER),
    ]


def _growth_taken_back(stage: Stage) -> None:
    """The job is stopped while its growth waits, and then it is not to grow any more."""
    stage.submit("j0", "q0", 2, **ELASTIC)
    stage.settle()
    stage.scale("j0", 9)
    stage.settle()
    stage.edit("ClusterQueue", "q0", stopPolicy="HoldAndDrain")
    stage.scale("j0", stage.choices.pick((2, 1, 3)))
    if stage.choices.chance(0.7):
        # Neither has heard of the other's decision.
        stage.decides("slices")
        stage.decides("scheduler")
    stage.until(WorkloadStopped)
    with stage.away(stage.choices.pick(("slices", "slices", ""))):
        stage.settle()
        stage.edit("ClusterQueue", "q0", stopPolicy="None")
        stage.settle()
    stage.settle()


def _sized_as_quota_goes(stage: Stage) -> None:
    """Somebody asks for another size in the very moment in which the job's quota is released."""
    stage.submit("j0", "q0", 2, **ELASTIC)
    stage.settle()
    stage.scale("j0", stage.choices.pick((9, 7)))
    stage.settle()
    stage.edit("ClusterQueue", "q0", stopPolicy="HoldAndDrain")
    stage.until(QuotaReleased)
    stage.scale("j0", stage.choices.pick((4, 2, 7, 1)))
    stage.settle()
    stage.edit("ClusterQueue", "q0", stopPolicy="None")
    stage.settle()


def _shrunk_as_it_grows(stage: Stage) -> None:
    """A growth that the scheduler has admitted is taken back before the slice-aggregator hears of it."""
    stage.submit("j0", "q0", 2, **ELASTIC)
    stage.settle()
    with stage.away("scheduler"):
        stage.scale("j0", 3)
        stage.settle()
    stage.decides("scheduler")
    stage.scale("j0", stage.choices.pick((2, 2, 1)))
    stage.settle()
    stage.wait(40)
    stage.settle()


def _checked_elastic(_: Choices) -> list[Manifest]:
    return [check("check-a", "ctl-a"), queue("q0", quotas(f0=6), checks=["check-a"])]


def _growth_rejected(stage: Stage) -> None:
    """A check rejects a growth, and somebody asks for it again."""
    stage.submit("j0", "q0", 1, **ELASTIC)
    stage.settle()
    stage.answers = False
    stage.scale("j0", 3)
    stage.settle()
    stage.answer("check-a", Rejected())
    stage.settle()
    stage.answers = stage.choices.chance(0.5)
    stage.scale("j0", stage.choices.pick((4, 3, 2)))
    stage.settle()
    stage.answers = True


def _taken_back_and_asked_for_again(stage: Stage) -> None:
    """Sizes go down and up in one go, while what checks have approved of the growth is reserved."""
    choices = stage.choices
    two_sets = choices.chance(0.4)
    stage.submit("j0", "q0", 1, **ELASTIC, **({"sets": ((1, 1), (1, 1))} if two_sets else {}))
    stage.settle()
    stage.answers = choices.chance(0.3)
    first, other = ("s0", "s1") if two_sets else ("main", "main")
    stage.sizes("j0", **{first: 2})
    stage.settle()
    if two_sets and choices.chance(0.7):
        # Nothing is left of what was reserved, and as much is asked for.
        stage.sizes("j0", **{first: 1, other: 3})
    else:
        for size in (1, choices.pick((4, 3, 1)), choices.pick((2, 3))):
            stage.sizes("j0", **{first: size})
    if choices.chance(0.8):
        stage.decides("slices")
    if choices.chance(0.5):
        stage.settle()
    stage.answers = True
    stage.settle()


def _edited_while_it_waits(stage: Stage) -> None:
    """What is no matter of its pods is edited of a job that waits for its check with quota."""
    choices = stage.choices
    stage.answers = False
    stage.submit("j0", "q0", 1, priority="low", **(ELASTIC if choices.chance(0.3) else {}))
    stage.settle()
    stage.submit("j0", "q0", 1, priority=choices.pick(("high", "middle")), priority_boost="10")
    if choices.chance(0.3):
        stage.settle()
        stage.submit("j0", "q0", choices.pick((1, 2)), priority="low")
    stage.answers = True
    stage.settle()


def _few_to_complete(_: Choices) -> list[Manifest]:
    return [
        queue("q0", quotas(f0=4), cohort="c0", preemption=ANY_LOWER),
        queue("q1", quotas(f0=2), cohort="c0"),
    ]


def _partly_done(stage: Stage) -> None:
    """Pods are done one by one, in a job that runs few of them at once and then is to run more."""
    choices = stage.choices
    completions = 3 + choices.below(3)
    stage.indexed("j0", "q0", 1, completions, follows=False)
    stage.submit("j1", "q1", 5)
    stage.settle()
    for _ in range(completions - 1 - choices.below(2)):
        stage.end("j0", 1)
        if choices.chance(0.3):
            stage.scale("j0", choices.pick((3, 1, 4)))
        stage.settle()
    stage.scale("j0", choices.pick((3, 4, 9)))
    stage.settle()
    if choices.chance(0.3):
        stage.edit("ClusterQueue", "q0", stopPolicy="HoldAndDrain")
        stage.settle()
        stage.edit("ClusterQueue", "q0", stopPolicy="None")
        stage.settle()


def _more_than_must_complete(stage: Stage) -> None:
    """Sizes above what must complete, or is left of that, beside somebody who would be preempted for them."""
    choices = stage.choices
    if choices.chance(0.5):
        _partly_done(stage)
        return
    stage.indexed("j0", "q0", 2, 2 + choices.below(2), follows=choices.chance(0.2))
    stage.submit("j1", "q1", 4)
    stage.settle()
    stage.scale("j0", choices.pick((4, 3, 9)))
    stage.settle()
    if choices.chance(0.5):
        stage.end("j1")
    stage.settle()


# Variants


def _racers(choices: Choices) -> list[Manifest]:
    policy = racing() if choices.chance(0.5) else racing(v0=["f0"], v1=["f1"], v2=["f2"])
    more: Manifest = {"preemption": ANY_LOWER} if choices.chance(0.5) else {}
    return [
        queue("q0", quotas(f0=2, f1=2, f2=2), concurrentAdmissionPolicy=policy, **more),
        queue("q1", quotas(f0=2, f1=2, f2=2)),
    ]


def _race(stage: Stage) -> None:
    """Some run on each flavor, some wait, one runs on a flavor that is not its best, which becomes free."""
    for n in range(stage.choices.between(4, 6)):
        stage.submit(f"j{n}", "q0", 1, cpu=stage.choices.pick((2, 2, 1)))
        stage.settle()


def _gate_is_closed(stage: Stage) -> None:
    """The gate ConcurrentAdmission is switched off and on under a race, and some hear of it late."""
    _race(stage)
    for _ in range(stage.choices.between(1, 3)):
        with stage.away(stage.choices.pick(("variants", "variants", "scheduler", "slices"))):
            with stage.away(stage.choices.pick(("scheduler", ""))):
                gates = stage.actions.grammar.objects["Configuration", "default"]["spec"].get(
                    "featureGates", {}
                )
                on = not gates.get("ConcurrentAdmission", True)
                stage.edit("Configuration", "default", featureGates={"ConcurrentAdmission": on})
                stage.end(stage.choices.pick(("j1", "j2", "j0")))
                stage.settle()
            stage.settle()
        stage.settle()


def _queue_is_repointed(stage: Stage) -> None:
    """Jobs that run come to a queue that races, or leave it: their local queue is made anew."""
    choices = stage.choices
    to = choices.pick(("q0", "q1"))
    stage.repoint("lq0", to)
    _race(stage)
    for _ in range(choices.between(1, 3)):
        with stage.away(choices.pick(("", "variants", "scheduler", "slices"))):
            to = "q1" if to == "q0" else "q0"
            stage.repoint("lq0", to)
            if choices.chance(0.5):
                stage.settle()
        stage.settle()


def _explicit(choices: Choices) -> list[Manifest]:
    spec = queue("q0", quotas(f0=2, f1=2, f2=2), concurrentAdmissionPolicy=racing(v0=["f0"], v1=["f1"]))
    return [spec] if choices.chance(0.5) else [spec, queue("q1", quotas(f0=2), cohort="c0")]


def _variants_are_edited(stage: Stage) -> None:
    """Explicit variants get other flavors while some of them run."""
    _race(stage)
    other = stage.choices.pick(
        (
            {"v0": ["f0"], "v1": ["f1", "f2"]},
            {"v0": ["f0", "f2"], "v1": ["f1"]},
            {"v0": ["f2"], "v1": ["f1"]},
            {"v1": ["f1", "f2"], "v0": ["f0"]},
        )
    )
    stage.edit("ClusterQueue", "q0", concurrentAdmissionPolicy=racing(**other))
    stage.settle()


def _shared(choices: Choices) -> list[Manifest]:
    """Return the queue of story 7: cpu of one flavor, gpus of two; variants have the cpu in common."""
    policy = racing(best=["f0", "f1"], rest=["f0", "f2"])
    rules = [{"name": "check-a", "onFlavors": ["f1"]}]
    groups = (quotas("cpu", f0=choices.pick((4, 4, 8))), quotas("gpu", f1=1, f2=1))
    spec: Manifest = {"preemption": {"reclaimWithinCohort": "Any"}} if choices.chance(0.9) else {}
    return [
        check("check-a", "ctl-a"),
        queue("q0", *groups, checks=rules, concurrentAdmissionPolicy=policy, **spec),
    ]


def _two_variants_hold(stage: Stage) -> None:
    """Two variants of one job have quota: one runs, the better one waits for a check."""
    if stage.choices.chance(0.5):
        # Of the cpu there is no more than the one that runs has.
        stage.submit("j0", cpu=0, gpu=1, priority="high")
        stage.settle()
        stage.submit("j1", cpu=4, gpu=1, priority="high")
        stage.settle()
        stage.end("j0")
        stage.settle()
        return
    stage.submit("j0", cpu=4, gpu=1)
    stage.settle()
    stage.answers = False
    stage.submit("j1", cpu=4, gpu=1)
    stage.submit("j2", cpu=4, gpu=1)
    stage.settle()
    stage.end("j0")
    stage.settle()
    if stage.choices.chance(0.5):
        stage.answers = True
        stage.settle()
    stage.answers = True


def _guarded(choices: Choices) -> list[Manifest]:
    names = ["check-a"]
    return [
        settings(preemptionGateTimeoutSeconds=10),
        check("check-a", "ctl-a", preemptionPolicy=LATE),
        queue(
            "q0",
            quotas(f0=2, f1=choices.pick((2, 0))),
            checks=names,
            concurrentAdmissionPolicy=racing(),
            preemption=ANY_LOWER,
        ),
    ]


def _promised(stage: Stage) -> None:
    """A variant is promised its quota in the moment in which its gate closes, as its time is over."""
    choices = stage.choices
    stage.submit("j0", "q0", 1, cpu=2, priority="low")
    stage.submit("j1", "q0", 1, cpu=2, priority="low")
    stage.settle()
    stage.answers = False
    stage.submit("j2", "q0", 1, cpu=2, priority="high")
    stage.until(BlockedOnPreemptionGates)
    with stage.away("scheduler"):
        stage.settle()
    stage.wait(choices.pick((12, 1)))
    if choices.chance(0.8):
        stage.decides("scheduler")
    stage.settle()
    stage.answers = True
    stage.settle()


def _half_checked(_: Choices) -> list[Manifest]:
    checks = [{"name": "check-a", "onFlavors": ["f0"]}]
    policy = racing()
    return [
        check("check-a", "ctl-a"),
        queue("q0", quotas(f0=4, f1=2), checks=checks, concurrentAdmissionPolicy=policy),
    ]


def _reserved_before(stage: Stage) -> None:
    """A variant waits for its check with quota for what its job was, and another runs as what it is."""
    stage.answers = False
    stage.submit("j0", "q0", 1, cpu=3)
    stage.settle()
    if stage.choices.chance(0.5):
        with stage.away("scheduler"):
            stage.submit("j0", "q0", 1, cpu=1)
            stage.settle()
    stage.submit("j0", "q0", 1, cpu=2)
    stage.settle()
    stage.answer("check-a", Ready())
    stage.settle()
    stage.answers = True
    stage.settle()


def _turns(_: Choices) -> list[Manifest]:
    policy = racing()
    return [queue("q0", quotas(f0=2, f1=2), concurrentAdmissionPolicy=policy, preemption=ANY_LOWER)]


def _own_turn(stage: Stage) -> None:
    """A better variant comes to need its gate while victims leave for one whose gate is open."""
    stage.team(4)
    for name, cpu, priority in (("j0", 1, "low"), ("j1", 1, "high"), ("j2", 2, "low")):
        stage.submit(name, "q0", 1, cpu=cpu, priority=priority)
        stage.settle()
    stage.stops = ()
    stage.submit("j3", "q0", 1, cpu=2, priority="middle")
    stage.settle()
    stage.end("j1")
    stage.settle()
    stage.stops = ALL
    stage.settle()


def _heirs(choices: Choices) -> list[Manifest]:
    """Return a queue whose variants share cpu, and one beside it that takes back what is lent."""
    policy = racing(best=["f0", "f1"], rest=["f0", "f2"])
    rules = [{"name": "check-a", "onFlavors": ["f1"]}]
    within = choices.pick(("LowerPriority", "LowerOrNewerEqualPriority"))
    groups = (quotas("cpu", f0=choices.pick((2, 3, 4))), quotas("gpu", f1=1, f2=choices.pick((1, 2))))
    return [
        check("check-a", "ctl-a"),
        queue(
            "q0",
            *groups,
            cohort="c0",
            checks=rules,
            concurrentAdmissionPolicy=policy,
            preemption={**ANY_LOWER, "withinClusterQueue": within},
        ),
        queue("q1", quotas(f0=choices.pick((2, 3, 1))), cohort="c0", preemption=ANY_LOWER),
    ]


def _sibling_holds_on(stage: Stage) -> None:
    """Somebody needs what a variant holds together with a sibling, beside others who hold some of it."""
    choices = stage.choices
    stage.answers = False
    if choices.chance(0.3):
        stage.submit("j0", "q1", 1, cpu=1, priority=choices.pick(("low", "middle")))
        stage.settle()
    stage.submit("j1", "q0", 1, cpu=choices.pick((3, 2, 4)), gpu=1, priority="low")
    stage.settle()
    if choices.chance(0.4):
        stage.submit("j2", "q0", 1, cpu=1, gpu=choices.below(2), priority=choices.pick(("low", "middle")))
        stage.settle()
    more = {"gpu": 1} if choices.chance(0.2) else {}
    to = choices.pick(("q1", "q0")) if not more else "q0"
    stage.submit("j3", to, 1, cpu=choices.pick((2, 3, 1)), priority="high", **more)
    stage.settle()
    stage.answers = True
    stage.settle()


# Executors


def _plain(choices: Choices) -> list[Manifest]:
    return [queue("q0", quotas(f0=choices.pick((2, 4))), preemption=ANY_LOWER)]


def _claims_are_lost(stage: Stage) -> None:
    """The claims of attempts at work are lost, others find them free, and their owners are away or asleep."""
    choices = stage.choices
    team = stage.team(choices.between(2, 3))
    stage.submit("j0", "q0", 1, cpu=2, priority="low")
    stage.settle()
    if choices.chance(0.4):
        # Of a second attempt the log is read before it is begun.
        stage.submit("j1", "q0", 1, cpu=4, priority="high")
        stage.settle()
        stage.end("j1")
        stage.settle()
    for _ in range(choices.between(1, 2)):
        away = []
        for each in team:
            match choices.below(6):
                case 0:
                    each.cut()
                    away.append(each)
                case 1:
                    each.crash()
                    away.append(each)
        stage.asleep = [each.name for each in team if choices.chance(0.4)]
        if choices.chance(0.8):
            stage.cell.claims.lose()
        stage.wait(choices.pick((3, 12, 1)))
        stage.settle()
        stage.asleep = ()
        for each in away:
            if each.alive:
                each.reconnect()
            else:
                each.begin()
        stage.wait(choices.pick((3, 1, 12)))
        stage.settle()


def _four(_choices: Choices) -> list[Manifest]:
    return [queue("q0", quotas(f0=4))]


def _written_late(stage: Stage) -> None:
    """Jobs start together; what the leader shows of that arrives among what its successor writes."""
    choices, cell = stage.choices, stage.cell
    cell.on.clustered = choices.chance(0.5)
    stage.submit("j0", "q0", 4)
    stage.settle()
    # Whoever comes last starts first: a comparison has them in another order.
    for n in range(1, 1 + choices.between(2, 3)):
        stage.submit(f"j{n}", priority=("low", "middle", "high")[n - 1])
    stage.settle()
    stage.wait(2)
    stage.settle()
    before = cell.leader("slices")
    if before is None or before.publisher is None:
        return
    before.publisher.held = True
    stage.end("j0")
    stage.settle()
    before.publisher.held = False
    _until_it_writes(stage, before)
    after = next(each for each in before.service.replicas if each is not before)
    after.crash()
    after.start(before.snapshot() if choices.chance(0.9) else None)
    after.take_over()
    stage.submit("j4")
    after.take_in(10)
    while after.busy:
        after.send(10)
        after.arrive()
        after.hear()
    _until_it_writes(stage, after)
    if choices.chance(0.8) and after.publisher is not None and after.publisher.to_write() is not None:
        after.publisher.writes_part(choices.between(1, 2))
    if before.publisher.to_write() is not None:
        before.publisher.step(quick=True)


def _until_it_writes(stage: Stage, replica: Replica) -> None:
    """Let its publisher ask all that it has to ask before it writes several entries."""
    publisher = replica.publisher
    assert publisher is not None
    for _ in range(10):
        question = publisher.to_write()
        if question is not None and len(question.items) > 1:
            return
        if publisher.due:
            publisher.step(quick=True)
        else:
            stage.wait(0.2)


SCENES: dict[str, Scene] = {
    "several-sets": Scene("pod sets that leave each other too little", _flavors, _several_sets),
    "siblings-wait": Scene("variants that wait for the pods of others", _ready_first, _siblings_wait),
    "blocker": Scene("a StrictFIFO head that waits", _blockers, _blocker),
    "circles": Scene("queues that do not agree on who comes first", _crowd, _all_against_all),
    "at-odds": Scene("rights that go round", _at_odds, _come_and_go, ("partial",)),
    "in-vain": Scene("a preemptor whose room others would borrow", _in_vain, _room_for_others),
    "swapped": Scene("two jobs in each other's place", _crosswise, _swapped, ("racing",)),
    "preemptor-waits": Scene("a preemptor that waits", _neighbours, _preemptor_waits),
    "constrained": Scene("constraints with partial admission", _lenders, _constrained, ("partial",)),
    "borrowers": Scene("who cannot borrow, beside who does", _checked, _borrowers, ("checks",)),
    "reserves": Scene("who only reserves, with blockAdmission", _reserving, _only_reserves, ("checks",)),
    "two-retries": Scene("two Retry verdicts", _two_checks, _two_retries, ("checks",)),
    "second-thoughts": Scene("a check that adds, and thinks again", _adding, _second_thoughts, ("checks",)),
    "taken-back": Scene("growth taken back by a job that stops", _elastic, _growth_taken_back),
    "as-quota-goes": Scene("a size asked for as the quota goes", _elastic, _sized_as_quota_goes),
    "as-it-grows": Scene("growth taken back as it is admitted", _elastic, _shrunk_as_it_grows),
    "rejected": Scene("growth that a check rejects", _checked_elastic, _growth_rejected, ("checks",)),
    "asked-again": Scene(
        "growth taken back and asked for again",
        _checked_elastic,
        _taken_back_and_asked_for_again,
        ("checks",),
    ),
    "edited": Scene(
        "edits of a job that waits for a check", _checked_elastic, _edited_while_it_waits, ("checks",)
    ),
    "completions": Scene("sizes above what must complete", _few_to_complete, _more_than_must_complete),
    "gate": Scene("the gate switched under a race", _racers, _gate_is_closed, ("racing",)),
    "repointed": Scene("jobs that come to a race or leave it", _racers, _queue_is_repointed, ("racing",)),
    "explicit": Scene("explicit variants edited", _explicit, _variants_are_edited, ("racing",)),
    "shared": Scene("variants that share", _shared, _two_variants_hold, ("checks", "racing")),
    "promised": Scene("a gate that closes on a promise", _guarded, _promised, ("checks", "racing")),
    "heirs": Scene("a victim whose sibling goes on to hold", _heirs, _sibling_holds_on, ("checks", "racing")),
    "claims": Scene("claims that are lost", _plain, _claims_are_lost),
    "written-late": Scene("a replaced leader's write", _four, _written_late, ("standby",)),
    "reserved-before": Scene(
        "quota from before an edit", _half_checked, _reserved_before, ("checks", "racing")
    ),
    "own-turn": Scene("a gate that is asked for meanwhile", _turns, _own_turn, ("racing",)),
}


def scene_of(seed: int) -> str:
    """Return with which scene a seed's run opens, '' if with none."""
    names = list(SCENES)
    return names[seed // EVERY % len(names)] if seed % EVERY == 1 else ""


__all__ = ["EVERY", "LENGTHS", "SCENES", "Scene", "scene_of"]
