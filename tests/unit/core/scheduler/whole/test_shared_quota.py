"""What two variants of a family share is charged once, to whom it is of use (CA10).

KEP-8691, "Reserving Quota for the same Workload twice", and its story 7: variants with a flavor in common.
"""

from typing import Any

import pytest

from sluice.core.views import View
from sluice.core.world.charging import charge, recharge
from sluice.events.scheduler import Preempted, QuotaReleased
from tests.support.family_world import FamilyWorld, cell, cluster_queue, flavor, job, local_queue
from tests.support.objects import kueue_object, priority_class

HIGH = priority_class("high", 100)
CPU = ("default", "cpu")


def story_7(cpu: int, gpus: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a queue with *cpu* of one flavor and *gpus* of two, the better one first."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["default", "reservation"]},
            {"name": "rest", "allowedResourceFlavors": ["default", "on-demand"]},
        ],
    }
    queue = cluster_queue({"default": cpu}, policy, **spec)

    def quota(name: str, resource: str, amount: int) -> dict[str, Any]:
        return {"name": name, "resources": [{"name": resource, "nominalQuota": amount}]}

    queue["spec"]["resourceGroups"] = [
        {"coveredResources": ["cpu"], "flavors": [quota("default", "cpu", cpu)]},
        {
            "coveredResources": ["gpu"],
            "flavors": [quota("reservation", "gpu", gpus), quota("on-demand", "gpu", gpus)],
        },
    ]
    return queue


def submit(world: FamilyWorld, name: str, cpu: int = 4, gpu: int = 1, **extra: Any) -> None:
    manifest = job(name, cpu, **extra)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    wanted = {"cpu": cpu, "gpu": gpu}
    container["resources"]["requests"] = {name: amount for name, amount in wanted.items() if amount}
    world.message(f"job.default.{name}", "JobSubmitted", manifest)
    world.settle_all()


def gpu_of(world: FamilyWorld, name: str) -> str:
    entry = world.dispatch(name)
    assert entry is not None
    return entry.pod_sets[0].flavors["gpu"] if entry.state == "Running" else ""


def used(world: FamilyWorld) -> dict[tuple[str, str], int]:
    """Return what the scheduler charges to the queue; the view says the same."""
    state = world.services["scheduler"].state
    usage: dict[tuple[str, str], int] = state.world.cluster_queues["main"].node.usage
    view = View()
    for seq, _, event in world.history:
        view.apply(event, seq, world.now)
    assert dict(sorted(view.cluster_queues["main"].reservation.items())) == usage
    for workload in state.world.workloads.values():
        if workload.assignment is not None:
            assert workload.usage == charge(state.world, workload)
    return usage


def running_on_demand(cpu: int, **spec: Any) -> FamilyWorld:
    """Return a cell in which `mover` runs on the second choice, and `first` on the reservation."""
    world = cell(story_7(cpu, **spec), HIGH)
    submit(world, "first", cpu=0, priority_class="high")
    submit(world, "mover", priority_class="high")
    assert (gpu_of(world, "first"), gpu_of(world, "mover")) == ("reservation", "on-demand")
    return world


@pytest.mark.parametrize(
    "preemption",
    [
        {},
        {"reclaimWithinCohort": "LowerPriority"},
        {"reclaimWithinCohort": "Any"},
        {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("cohort", [{}, {"cohortName": "c"}], ids=["alone", "in a cohort"])
def test_one_copy_is_enough_to_move(preemption: dict[str, Any], cohort: dict[str, str]) -> None:
    """Story 7: with cpu for the job that runs, and no more, the better variant gets in, by any policy."""
    world = running_on_demand(4, preemption=preemption, **cohort)
    world.report("first", "JobFinished", success=True)
    world.settle()
    assert used(world)[CPU] == 4000
    world.settle_all()
    assert gpu_of(world, "mover") == "reservation"
    assert used(world) == {CPU: 4000, ("reservation", "gpu"): 1}
    world.verify()


def test_nobody_is_preempted_for_a_copy() -> None:
    """A job of high priority that moves takes the gpu, and leaves those who use the rest of the cpu alone."""
    world = running_on_demand(8, preemption={"withinClusterQueue": "LowerPriority"})
    submit(world, "low", gpu=0)
    assert used(world)[CPU] == 8000
    world.report("first", "JobFinished", success=True)
    world.settle_all()
    assert gpu_of(world, "mover") == "reservation"
    assert world.events(Preempted) == []
    assert used(world)[CPU] == 8000
    world.verify()


def checked(cpu: int, **spec: Any) -> FamilyWorld:
    """Return a cell in which `mover` runs, and its better variant waits for a check, with its quota."""
    check = kueue_object("AdmissionCheck", "slow", {"controllerName": "example.com/slow"})
    strategy = {"admissionChecks": [{"name": "slow", "onFlavors": ["reservation"]}]}
    world = cell(story_7(cpu, admissionChecksStrategy=strategy, **spec), check, HIGH)
    submit(world, "mover")
    assert gpu_of(world, "mover") == "on-demand"
    return world


def checked_everywhere(cpu: int, variants: int, **spec: Any) -> FamilyWorld:
    """Return a cell in which all variants of `mover` wait for a check, with their quota."""
    check = kueue_object("AdmissionCheck", "slow", {"controllerName": "example.com/slow"})
    queue = story_7(cpu, **spec)
    named = queue["spec"]["concurrentAdmissionPolicy"]["explicitVariants"]
    for number in range(2, variants):
        named.append({**named[-1], "name": f"rest-{number}"})
    world = cell(queue, check, HIGH)
    submit(world, "mover")
    return world


def holding(world: FamilyWorld) -> list[str]:
    workloads = world.services["scheduler"].state.world.workloads
    return [key for key, workload in workloads.items() if workload.assignment is not None]


def test_a_copy_is_not_kept_while_a_check_takes_long() -> None:
    """The better variant holds its gpu beside the sibling that runs; the cpu of both is charged once."""
    world = checked(8)
    assert used(world) == {CPU: 4000, ("on-demand", "gpu"): 1, ("reservation", "gpu"): 1}
    submit(world, "other", cpu=4, gpu=0)
    assert used(world)[CPU] == 8000
    world.checks_say(world.variants("mover")["best"].key, "Ready")
    world.settle()
    assert used(world)[CPU] == 8000
    world.settle_all()
    assert gpu_of(world, "mover") == "reservation"
    assert used(world) == {CPU: 8000, ("reservation", "gpu"): 1}
    world.verify()


def test_the_whole_is_charged_to_the_one_that_stays() -> None:
    """A sibling that is leaving frees nothing that the better one goes on to use."""
    world = checked(4)
    rest, best = (world.variants("mover")[name].key for name in ("rest", "best"))
    held = world.services["scheduler"].state.world.workloads
    assert held[rest].usage == {CPU: 4000, ("on-demand", "gpu"): 1}
    assert held[best].usage == {("reservation", "gpu"): 1}
    world.checks_say(best, "Ready")
    world.settle()
    assert held[rest].usage == {("on-demand", "gpu"): 1}
    assert held[best].usage == {CPU: 4000, ("reservation", "gpu"): 1}
    assert used(world)[CPU] == 4000
    world.settle_all()
    assert used(world) == {CPU: 4000, ("reservation", "gpu"): 1}
    world.verify()


def test_a_variant_that_is_rejected_takes_nothing_along() -> None:
    world = checked(4)
    world.checks_say(world.variants("mover")["best"].key, "Rejected")
    world.settle_all()
    assert used(world) == {CPU: 4000, ("on-demand", "gpu"): 1}
    assert gpu_of(world, "mover") == "on-demand"
    world.verify()


def test_fair_sharing_counts_a_family_once() -> None:
    """Two queues of a cohort: who waits for a check with a second variant borrows no more for it."""
    world = checked(8)
    node = world.services["scheduler"].state.world.cluster_queues["main"].node
    assert node.used(CPU) == 4000


def test_a_variant_beside_one_that_waits_for_victims_shares_with_it() -> None:
    """While the better variant waits for its victims, the other one is not kept out for a copy of the cpu."""
    queue = story_7(8, cohortName="c", preemption={"reclaimWithinCohort": "Any"})
    world = cell(queue, HIGH)
    lender: dict[str, Any] = story_7(0, 0, cohortName="c", name="far")
    del lender["spec"]["concurrentAdmissionPolicy"]
    world.apply(flavor("default"), lender, local_queue("far", "far"))
    manifest = job("borrower", 4)
    manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "far"
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"]["gpu"] = 1
    world.message("job.default.borrower", "JobSubmitted", manifest)
    world.settle_all()
    assert gpu_of(world, "borrower") == "reservation"
    manifest = job("mover", 4)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"]["gpu"] = 1
    world.message("job.default.mover", "JobSubmitted", manifest)
    world.settle()
    used(world)
    world.settle_all()
    assert gpu_of(world, "mover") == "reservation"
    assert len(world.events(Preempted)) == 1
    world.verify()


@pytest.mark.parametrize("variants", [2, 3])
@pytest.mark.parametrize("cpu", [1, 4])
def test_a_family_is_preempted_as_a_whole_for_what_its_variants_share(cpu: int, variants: int) -> None:
    """To stop one of its variants frees nothing of it: the others go on to hold it (SC5, CA10)."""
    everywhere = {"admissionChecksStrategy": {"admissionChecks": [{"name": "slow"}]}}
    world = checked_everywhere(0, variants, cohortName="c", **everywhere)
    lender = story_7(4, 0, cohortName="c", name="far", preemption={"reclaimWithinCohort": "Any"})
    del lender["spec"]["concurrentAdmissionPolicy"]
    world.apply(lender, local_queue("far", "far"))
    world.settle_all()
    held = set(holding(world))
    assert len(held) == variants
    manifest = job("owner", cpu)
    manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "far"
    world.message("job.default.owner", "JobSubmitted", manifest)
    world.settle_all()
    assert sorted(event.workload for event in world.events(Preempted)) == sorted(held)
    (owner,) = holding(world)
    assert owner.startswith("default/job-owner")
    world.verify()


def test_only_as_much_of_a_family_is_preempted_as_is_needed() -> None:
    """What a variant has alone is free when it goes, and its sibling stays."""
    world = checked(8, preemption={"withinClusterQueue": "LowerPriority"})
    submit(world, "high", cpu=0, gpu=1, priority_class="high")
    (event,) = world.events(Preempted)
    assert "best" in event.workload
    assert gpu_of(world, "mover") == "on-demand"
    world.verify()


def test_a_cut_of_what_a_family_shares_leaves_the_variant_its_quota() -> None:
    """AC7: what it needs beyond its sibling is there; what both need is counted when the sibling has gone."""
    world = running_on_demand(4)
    world.report("first", "JobFinished", success=True)
    world.settle()
    before = len(world.events(QuotaReleased))
    world.apply(story_7(2))
    world.settle()
    assert len(world.events(QuotaReleased)) == before
    world.settle_all()
    assert gpu_of(world, "mover") == ""
    assert used(world) == {}
    world.verify()


def test_a_variant_that_waits_hears_of_what_its_sibling_has_got() -> None:
    """Both wait for cpu; the better one gets it, and a check to wait for: the other needs no more cpu now.

    Nothing is freed for it, so it must be looked at for what its sibling holds; and its equals of other
    families, whose siblings hold nothing, wait on.
    """
    # A queue that may take back what it lends keeps nothing for those that wait, and so looks less often.
    world = checked(4, preemption={"reclaimWithinCohort": "Any"})
    submit(world, "next")
    submit(world, "last")
    assert world.dispatch("next") is None
    world.report("mover", "JobFinished", success=True)
    world.settle_all()
    assert gpu_of(world, "next") == "on-demand"
    assert world.dispatch("last") is None
    assert used(world) == {CPU: 4000, ("reservation", "gpu"): 1, ("on-demand", "gpu"): 1}
    world.verify()


def test_a_family_without_pods_is_charged_the_same_however_it_came_to_it() -> None:
    """Charged when reserved or charged anew, two variants of a job of no pods take the same: nothing."""
    world = checked(4)
    manifest = job("none", 1)
    manifest["spec"]["parallelism"] = 0
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"]["gpu"] = 1
    world.message("job.default.none", "JobSubmitted", manifest)
    world.settle_all()
    state = world.services["scheduler"].state
    held = [w for w in state.world.workloads.values() if w.record.parent and w.assignment is not None]
    assert len([w for w in held if not any(w.usage.values())]) == 2
    for workload in held:
        recharge(state.world, workload)
    used(world)
