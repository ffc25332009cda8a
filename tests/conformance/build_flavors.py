"""Manifests of the flavorassigner suites -> the world, the workload and the oracle that `assign` takes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from sluice.api import kueue
from sluice.api.quantity import format_value, resource_value
from sluice.core.flavors.assigner import assign
from sluice.core.flavors.assignment import Assignment, Mode, Possibility
from sluice.core.quota.tree import FlavorResource, Quota, Tree
from sluice.core.world.model import ClusterQueue, ResourceGroup, World
from sluice.core.world.workload import Workload
from sluice.events.base import PodSet, PodSetAssignment, WorkloadKey
from sluice.events.slices import WorkloadRecord

from .framework import Json, gates

MODES = {Mode.NO_FIT: "NoFit", Mode.PREEMPT: "Preempt", Mode.FIT: "Fit"}
POSSIBILITIES = {
    "NoCandidates": Possibility.NO_CANDIDATES,
    "Preempt": Possibility.PREEMPT,
    "Reclaim": Possibility.RECLAIM,
}
ALLOWED_FLAVORS = "kueue.x-k8s.io/workload-allowed-resource-flavors"


class StubOracle:
    """Answers as the case says; Preempt without borrowing where it says nothing."""

    def __init__(self, answers: Mapping[str, Json] | None) -> None:
        self.answers = answers or {}

    def possibility(
        self,
        cq: ClusterQueue,  # noqa: ARG002
        workload: Workload,  # noqa: ARG002
        fr: FlavorResource,
        amount: int,  # noqa: ARG002
    ) -> tuple[Possibility, int]:
        answer = self.answers.get("/".join(fr))
        if answer is None:
            return Possibility.PREEMPT, 0
        return POSSIBILITIES[answer["preemptionPossiblity"]], answer["borrowingAfterSimulation"]


def assignment_of(case: Json, header: Json) -> Assignment:
    """Assign flavors to the case's workload."""
    given = case["input"]
    options = case["options"]
    feature_gates = gates(case, header)
    world = world_of(
        given,
        feature_gates,
        fair_sharing=options.get("fairSharing", False),
        quota_check_strategy=options.get("quotaCheckStrategy")
        if feature_gates["QuotaCheckStrategy"]
        else None,
    )
    cq = world.cluster_queues[given["targetCQ"]]
    charge(world, given["targetCQ"], given.get("clusterQueueUsage"))
    charge(world, given.get("secondaryClusterQueue"), given.get("secondaryClusterQueueUsage"))
    return assign(
        world,
        workload_of(given["workload"]),
        cq,
        StubOracle(given.get("simulationResult")),
        replaced=replaced_of(given.get("preemptWorkloadSlice")),
    )


def world_of(
    given: Json,
    feature_gates: dict[str, bool],
    *,
    fair_sharing: bool,
    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] | None = None,
) -> World:
    world = World(Tree())
    world.config = kueue.ConfigurationSpec(
        feature_gates=feature_gates,
        fair_sharing=kueue.FairSharingConfig(enable=fair_sharing),
        quota_check_strategy=quota_check_strategy or "BlockUndeclared",
    )
    for manifest in given.get("ResourceFlavor", ()):
        flavor = msgspec.convert(manifest, kueue.ResourceFlavor)
        world.flavors[flavor.metadata.name] = flavor
    for manifest in given.get("Cohort", ()):
        cohort = msgspec.convert(_without_status(manifest), kueue.Cohort)
        world.tree.set_cohort(
            cohort.metadata.name, cohort.spec.parent_name, _quotas(cohort.spec.resource_groups)
        )
    for manifest in given.get("ClusterQueue", ()):
        queue = msgspec.convert(_without_status(manifest), kueue.ClusterQueue)
        add_cluster_queue(world, queue.metadata.name, queue.spec)
    return world


def add_cluster_queue(world: World, name: str, spec: kueue.ClusterQueueSpec) -> ClusterQueue:
    node = world.tree.set_cluster_queue(name, spec.cohort_name, _quotas(spec.resource_groups))
    groups = tuple(
        ResourceGroup(tuple(group.covered_resources), tuple(flavor.name for flavor in group.flavors))
        for group in spec.resource_groups
    )
    # A resource in two groups is invalid; where a fixture has one, the first group counts.
    group_of = {resource: group for group in reversed(groups) for resource in group.covered_resources}
    queue = world.cluster_queues[name] = ClusterQueue(name, spec, node, groups, group_of)
    return queue


def _without_status(manifest: Json) -> Json:
    return {key: value for key, value in manifest.items() if key != "status"}


def _quotas(groups: Sequence[kueue.ResourceGroup]) -> dict[FlavorResource, Quota]:
    def amount(resource: str, quantity: Any) -> int | None:
        return None if quantity is None else resource_value(resource, quantity)

    return {
        (flavor.name, quota.name): Quota(
            resource_value(quota.name, quota.nominal_quota),
            amount(quota.name, quota.borrowing_limit),
            amount(quota.name, quota.lending_limit),
        )
        for group in groups
        for flavor in group.flavors
        for quota in flavor.resources
    }


def charge(world: World, name: str | None, usage: Mapping[str, int] | None) -> None:
    """Charge `flavor/resource` amounts; resource names may hold slashes."""
    if name and usage:
        node = world.cluster_queues[name].node
        world.tree.add(node, {_split(key): amount for key, amount in usage.items()})


def _split(key: str) -> FlavorResource:
    flavor, _, resource = key.partition("/")
    return flavor, resource


def workload_of(manifest: Json) -> Workload:
    obj = msgspec.convert({**manifest, "status": {}}, kueue.Workload)
    annotations = obj.metadata.annotations
    allowed = annotations.get(ALLOWED_FLAVORS, "")
    record = WorkloadRecord(
        namespace=obj.metadata.namespace,
        name=obj.metadata.name,
        uid=obj.metadata.uid,
        queue_name=obj.spec.queue_name,
        created_at=0,
        pod_sets=tuple(map(_pod_set, obj.spec.pod_sets)),
        allowed_flavors=tuple(allowed.split(",")) if allowed else (),
        annotations=annotations,
    )
    workload = Workload(record, WorkloadKey(record.key), record.uid, obj.spec.priority or 0)
    for pods in (manifest.get("status") or {}).get("reclaimablePods", ()):
        workload.reclaimable[pods["name"]] = pods["count"]
    return workload


def _pod_set(ps: kueue.WorkloadPodSet) -> PodSet:
    spec = ps.template.spec
    requests: dict[str, int] = {}
    for container in spec.containers:
        for resource, quantity in container.resources.requests.items():
            requests[resource] = requests.get(resource, 0) + resource_value(resource, quantity)
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return PodSet(
        name=ps.name,
        count=ps.count,
        requests=requests,
        min_count=ps.min_count,
        node_selector=spec.node_selector,
        node_affinity=tuple(required.node_selector_terms) if required is not None else (),
        tolerations=tuple(spec.tolerations),
        group=(ps.topology_request.pod_set_group_name or "") if ps.topology_request is not None else "",
    )


def replaced_of(slice_: Json | None) -> tuple[PodSetAssignment, ...] | None:
    if slice_ is None:
        return None
    return tuple(
        PodSetAssignment(name=ps["name"], count=ps["count"], flavors=ps["flavors"], usage=ps["requests"])
        for ps in slice_["totalRequests"]
    )


def as_json(assignment: Assignment) -> Json:
    """Spell an assignment as the suites' `wantAssignment` does, less what they compare loosely."""
    return {
        "borrowing": assignment.borrowing,
        "podSets": [
            {
                "name": result.name,
                "count": result.count,
                "requests": {res: format_value(res, amount) for res, amount in result.requests.items()},
                "flavors": {
                    res: {"name": flv.name, "mode": MODES[flv.mode], "triedFlavorIdx": flv.tried_flavor_idx}
                    for res, flv in result.flavors.items()
                },
                "reasons": sorted(set(result.reasons)),
            }
            for result in assignment.pod_sets
        ],
        "usage": {"/".join(fr): amount for fr, amount in assignment.usage.items()},
    }


def wanted(expected: Json) -> Json:
    """Take the strictly compared part of a `wantAssignment`."""
    return {
        "borrowing": expected["borrowing"],
        "podSets": [
            {
                "name": ps["name"],
                "count": ps["count"],
                "requests": ps["requests"] or {},
                "flavors": ps["flavors"] or {},
                "reasons": sorted(set(ps["status"]["reasons"] or ())),
            }
            for ps in expected["podSets"]
        ],
        "usage": expected["usage"]["assigned"] or {},
    }


def attempts_json(assignment: Assignment) -> list[Json]:
    """Return flavor name -> attempt, per pod set."""
    names = {possibility: name for name, possibility in POSSIBILITIES.items()}
    return [
        {
            attempt.flavor: {
                "borrow": attempt.borrow,
                "mode": MODES[attempt.mode],
                "noFitReason": attempt.no_fit_reason,
                "preemptionPossibility": None if attempt.possibility is None else names[attempt.possibility],
                "reasons": sorted(attempt.reasons),
            }
            for attempt in result.attempts
        }
        for result in assignment.pod_sets
    ]
