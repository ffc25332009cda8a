"""What becomes of families in a whole cell: backoff, gates, resource groups, edits, causes, counts."""

from typing import Any

from sluice.core.views import notices, why_pending
from sluice.core.views.totals import series
from sluice.core.workload.pending_reasons import ON_HOLD
from sluice.core.world.variants import HELD_BACK
from sluice.events.base import JobKey
from sluice.events.scheduler import Admitted, Evicted, Preempted
from sluice.events.variants import (
    PreemptionGateClosed,
    PreemptionGateOpened,
    VariantActivated,
    VariantCreated,
    VariantDeactivated,
)
from tests.support.family_world import (
    FamilyWorld,
    cell,
    cluster_queue,
    configuration,
    flavor,
    job,
    local_queue,
)
from tests.support.objects import priority_class

HIGH = priority_class("high", 100)
PREEMPTS = {"withinClusterQueue": "LowerPriority"}


def totals(world: FamilyWorld) -> dict[str, float]:
    return {
        "/".join((name.removeprefix("sluice_").removesuffix("_total"), *labels.values())): value
        for name, labels, value in series(world.view().totals)
    }


# CA15


def test_a_pods_ready_timeout_backs_the_whole_family_off() -> None:
    """CA15: the variant that ran is evicted, and no sibling is admitted before the backoff is over."""
    ready = {
        "enable": True,
        "timeoutSeconds": 10,
        "requeuingStrategy": {"backoffBaseSeconds": 60, "timestamp": "Eviction"},
    }
    world = cell(cluster_queue({"res": 1, "od": 1}), configuration(waitForPodsReady=ready))
    world.submit("a").settle_all()
    assert world.flavor_of("a") == "res"
    world.run_until(11)
    world.settle_all()
    assert [e.reason for e in world.events(Evicted) if isinstance(e, Evicted)] == ["PodsReadyTimeout"]
    assert world.flavor_of("a") == ""
    view = world.view()
    waits = {name: why_pending(view, view.workloads[v.key]) for name, v in world.variants("a").items()}
    assert {reason for reason, _ in waits.values()} == {ON_HOLD}
    assert waits["od"][1] == HELD_BACK
    world.run_until(45)
    assert len(world.events(Admitted)) == 1, "a sibling was admitted at once"
    world.run_until(20)
    assert world.flavor_of("a") == "res"
    world.report("a", "JobPodsReady").run_until(30)
    assert world.flavor_of("a") == "res"
    world.verify()


# CA11


def test_a_gate_of_the_user_is_never_opened() -> None:
    """A job that may not preempt by its own gate does not by way of its variants."""
    world = cell(cluster_queue({"res": 1, "od": 1}, preemption=PREEMPTS), HIGH)
    for name in ("low-1", "low-2"):
        world.submit(name)
    world.settle_all()
    gated = job("gated", priority_class="high")
    gated["metadata"]["annotations"] = {"kueue.x-k8s.io/preemption-gates": "mine"}
    world.message("job.default.gated", "JobSubmitted", gated).settle_all()
    world.run_until(700)
    assert world.events(PreemptionGateOpened, Preempted) == []
    world.report("low-1", "JobFinished", success=True).settle_all()
    assert world.flavor_of("gated") == "res"


def test_the_gate_goes_round_when_preemption_does_not_succeed() -> None:
    """Five minutes without success, and the next blocked variant may preempt; the first gate closes."""
    world = cell(cluster_queue({"res": 1, "od": 1}, preemption=PREEMPTS), HIGH)
    for name in ("low-1", "low-2"):
        world.submit(name)
    world.settle_all()
    world.submit("high", priority_class="high").settle()  # the victim is told to stop, and does not
    opened = [e for e in world.events(PreemptionGateOpened) if isinstance(e, PreemptionGateOpened)]
    named = {v.key: v.name for v in world.variants("high").values()}
    assert [named[e.workload] for e in opened] == ["res"]
    world.run_until(301)
    opened = [e for e in world.events(PreemptionGateOpened) if isinstance(e, PreemptionGateOpened)]
    assert [named[e.workload] for e in opened][:2] == ["res", "od"]
    closed = next(e for e in world.events(PreemptionGateClosed) if isinstance(e, PreemptionGateClosed))
    assert (closed.cause, closed.spent) == (0, True), "only time has passed"
    world.settle_all()
    assert world.flavor_of("high") in ("res", "od")


def test_the_gate_of_a_variant_closes_when_it_is_admitted() -> None:
    """CA11: who has got in by its gate does not keep it, so a better sibling need not wait for its time."""
    world = cell(cluster_queue({"res": 1, "od": 1}, preemption=PREEMPTS), HIGH)
    for name in ("low-1", "low-2"):
        world.submit(name)
    world.settle_all()
    world.submit("high", priority_class="high").settle_all()
    assert world.flavor_of("high") == "res"
    (preempted,) = (e for e in world.events(Preempted) if isinstance(e, Preempted))
    job_uid = world.services["slices"].state.jobs[JobKey("default/high")].record.job.uid
    assert f"JobUID: {job_uid})" in preempted.message, "a variant preempts for its parent's job"
    res = world.variants("high")["res"]
    assert [type(e) for e in world.events(PreemptionGateOpened, PreemptionGateClosed)] == [
        PreemptionGateOpened,
        PreemptionGateClosed,
    ]
    assert res.admitted_at is not None
    assert res.gate_at is None
    shown = world.view().workloads[res.key]
    assert [is_open for is_open, _ in shown.gates.values()] == [False]
    world.verify()


def test_who_is_switched_on_again_is_asked_again() -> None:
    """CA11: a variant that was blocked when it was switched off is said to be blocked when it races again."""
    world = cell(cluster_queue({"res": 1, "od": 1}, preemption=PREEMPTS), HIGH)
    for name in ("low-1", "low-2"):
        world.submit(name)
    world.settle_all()
    world.submit("high", priority_class="high").settle_all()
    assert world.flavor_of("high") == "res"
    world.apply(cluster_queue({"od": 1}, preemption=PREEMPTS)).settle_all()
    assert world.flavor_of("high") == "od", "its other variant may preempt, too"
    world.verify()


# Several pod sets and resource groups


def test_variants_that_a_stopped_queue_holds_go_with_their_job() -> None:
    """The queue can be edited, and started again, after the job is gone: nobody is left on a list of it."""
    queue = {"res": 1, "od": 1}
    world = cell(cluster_queue(queue))
    world.submit("a").settle_all()
    world.apply(cluster_queue(queue, stopPolicy="HoldAndDrain")).settle_all()
    assert world.services["scheduler"].state.lifecycle.held
    world.message("job.default.a", "JobDeleted", {}).settle_all()
    world.apply(cluster_queue(queue)).settle_all()
    world.submit("b").settle_all()
    assert world.flavor_of("b") == "res"
    world.verify()


def test_explicit_variants_span_resource_groups_and_pod_sets() -> None:
    """Each attempt has a flavor of every group, for every pod set; the job moves in one group only."""

    def quota(resource: str, **flavors: int) -> dict[str, Any]:
        return {
            "coveredResources": [resource],
            "flavors": [
                {"name": name, "resources": [{"name": resource, "nominalQuota": amount}]}
                for name, amount in flavors.items()
            ],
        }

    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["cpu-only", "gpu-res"]},
            {"name": "rest", "allowedResourceFlavors": ["cpu-only", "gpu-od"]},
        ],
    }
    queue = cluster_queue({"cpu-only": 12}, policy)
    groups = [quota("cpu", **{"cpu-only": 12}), quota("gpu", **{"gpu-res": 2, "gpu-od": 2})]
    queue["spec"]["resourceGroups"] = groups
    world = cell(queue)

    def cluster(name: str) -> dict[str, Any]:
        def template(**requests: int) -> dict[str, Any]:
            container = {"name": "main", "image": "x", "resources": {"requests": requests}}
            return {"spec": {"containers": [container]}}

        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"kueue.x-k8s.io/queue-name": "main"},
            },
            "spec": {
                "headGroupSpec": {"template": template(cpu=1)},
                "workerGroupSpecs": [
                    {"groupName": "workers", "replicas": 2, "template": template(cpu=1, gpu=1)}
                ],
            },
        }

    def flavors(name: str) -> list[dict[str, str]]:
        entry = world.dispatch(name)
        assert entry is not None
        return [dict(pods.flavors) for pods in entry.pod_sets] if entry.state == "Running" else []

    for name in ("a", "b"):
        world.message(f"job.default.{name}", "JobSubmitted", cluster(name))
    world.settle_all()
    assert flavors("a") == [{"cpu": "cpu-only"}, {"cpu": "cpu-only", "gpu": "gpu-res"}]
    assert flavors("b") == [{"cpu": "cpu-only"}, {"cpu": "cpu-only", "gpu": "gpu-od"}]
    world.message("job.default.a", "JobDeleted", {}).settle_all()
    assert flavors("b") == [{"cpu": "cpu-only"}, {"cpu": "cpu-only", "gpu": "gpu-res"}]
    world.verify()


# CA13


def test_flavors_come_and_go() -> None:
    """A flavor that is taken away stops the job that runs on it; one that is added gets variants."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("a")
    world.submit("b").settle_all()
    world.apply(flavor("new"), cluster_queue({"new": 0, "od": 1})).settle()
    assert list(world.variants("a")) in (["new", "res", "od"], ["res", "new", "od"])
    assert (entry := world.dispatch("a")) is not None
    assert entry.stop
    world.settle_all()
    assert list(world.variants("a")) == ["new", "od"]
    assert [world.flavor_of(name) for name in ("a", "b")] == ["", "od"]
    said = [n for n in notices(world.view().workloads[key_of(world, "a")]) if "Evicted" in n.reason]
    assert [(n.reason, n.message) for n in said] == [
        (
            "EvictedDueToConcurrentAdmission",
            'No variant is running: flavor "res" no longer in ClusterQueue "main"',
        )
    ]
    world.verify()


def key_of(world: FamilyWorld, name: str) -> Any:
    (found,) = (
        w.key
        for w in world.view().workloads.values()
        if w.record.job is not None and w.record.job.key == f"default/{name}"
    )
    return found


# CA14, DB1


def test_jobs_count_once_and_variants_for_themselves() -> None:
    """CA14: two jobs are admitted, one moves; its variants have series of their own."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    for name in ("a", "b"):
        world.submit(name)
    world.settle_all()
    status = world.view().local_queues["default/main"]
    assert (status.admitted, len(status.running_parents)) == (2, 2)
    world.report("a", "JobFinished", success=True).settle_all()
    world.report("b", "JobPodsReady").settle_all()
    found = totals(world)
    assert found["admitted_workloads/main"] == 3
    assert found["evicted_workloads/main/FlavorMigration"] == 1
    assert found["admitted_variants/main/res"] == 2
    assert found["admitted_variants/main/od"] == 1
    assert found["evicted_variants/main/od/FlavorMigration"] == 1
    assert found["variants/main/od/created"] == 2
    assert found["variants/main/od/deactivated"] == 2
    assert found["migrations/main"] == 1
    assert "migration_lost_seconds/main" in found


def test_the_history_of_a_job_tells_of_its_variants() -> None:
    """CA14: each change of the family is an event of the parent, with its cause."""
    world = cell(cluster_queue({"res": 1, "od": 1}, preemption=PREEMPTS), HIGH)
    for name in ("low-1", "low-2"):
        world.submit(name)
    world.settle_all()
    world.submit("high", priority_class="high").settle_all()
    parent = world.view().workloads[key_of(world, "high")]
    said = [(n.reason, n.message) for n in notices(parent)]
    variants = {v.name: v.key for v in world.variants("high").values()}
    res, od = variants["res"], variants["od"]
    assert ("CreatedVariant", f'Variant Workload "{res}" created') in said
    ungated = f'Opened preemption gate for variant workload "{res}"'
    assert ("PreemptionUngatedVariant", ungated) in said
    lower = f'being lower priority than admitted Variant "{res}"'
    assert ("DeactivatedVariant", f"Variant Workload deactivated due to {lower}") in said
    assert ("Admitted", f"The variant {res.partition('/')[2]} is admitted") in said
    assert od not in [v.key for v in world.variants("high").values() if v.active]


def test_events_that_only_time_brings_have_no_cause() -> None:
    """DB1: a variant that a delay kept back comes without a message that could be its cause."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "res", "allowedResourceFlavors": ["res"], "deleteDelaySeconds": 50},
            {"name": "od", "allowedResourceFlavors": ["od"], "createDelaySeconds": 20},
        ],
    }
    world = cell(cluster_queue({"res": 0, "od": 1}, policy))
    world.submit("a").settle_all()
    created = [e for e in world.events(VariantCreated) if isinstance(e, VariantCreated)]
    assert all(event.cause > 0 for event in created)
    world.run_until(21)
    (activated,) = (e for e in world.events(VariantActivated) if isinstance(e, VariantActivated))
    assert activated.cause == 0
    assert world.flavor_of("a") == "od"
    world.run_until(51)
    (gone,) = (e for e in world.events(VariantDeactivated) if isinstance(e, VariantDeactivated))
    assert gone.cause == 0
    assert "deleteDelaySeconds: 50" in gone.message
    world.verify()


def test_an_ordinary_workload_keeps_to_its_allowed_flavors() -> None:
    """The annotation works without concurrent admission too."""
    world = cell(cluster_queue({"res": 1, "od": 2}, {}))
    picky = job("picky")
    picky["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-allowed-resource-flavors": "od"}
    world.message("job.default.picky", "JobSubmitted", picky).settle_all()
    assert world.flavor_of("picky") == "od"


def test_a_job_that_comes_from_an_ordinary_queue_becomes_a_parent() -> None:
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.apply(cluster_queue({"od": 0}, {}, name="plain"), local_queue("plain", "plain"))
    moving = job("a")
    moving["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "plain"
    world.message("job.default.a", "JobSubmitted", moving).settle_all()
    assert world.flavor_of("a") == ""
    world.message("job.default.a", "JobSubmitted", job("a")).settle_all()
    assert world.flavor_of("a") == "res"


def test_a_job_that_comes_to_race_says_what_its_variants_wait_for() -> None:
    """Its variants join those of others, on which the verdict was passed before their own queue changed."""
    world = cell(cluster_queue({"res": 1, "od": 1}), flavor("plain"))
    world.apply(cluster_queue({"plain": 1}, {}, name="plain"), local_queue("moving", "plain")).settle_all()
    for name in ("a", "b", "waits"):
        world.submit(name).settle_all()
    moving = job("p")
    moving["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "moving"
    world.message("job.default.p", "JobSubmitted", moving).settle_all()
    assert world.flavor_of("p") == "plain"
    world.delete("LocalQueue", "moving", "default")
    world.apply(local_queue("moving", "main")).settle_all()
    view, jobs = world.view(), world.services["slices"].state.jobs
    waits, moved = (
        why_pending(view, view.workloads[jobs[JobKey(f"default/{name}")].record.key])
        for name in ("waits", "p")
    )
    assert waits[0] == "WaitingForQuota"
    assert moved == waits
