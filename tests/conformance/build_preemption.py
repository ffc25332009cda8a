"""Manifests of the preemption suites -> a world with reservations, the preemptor, and what it is short of."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from sluice.api import kueue
from sluice.api.quantity import resource_value
from sluice.core.preemption.targets import Target, get_targets, preemption_message
from sluice.core.quota.fair_share import weight
from sluice.core.quota.tree import FlavorResource
from sluice.core.world.model import World
from sluice.core.world.queue_order import effective_priority
from sluice.core.world.reservations import reserve
from sluice.core.world.workload import Workload
from sluice.events.base import Micros, WorkloadKey
from sluice.events.slices import WorkloadRecord

from .build_flavors import world_of
from .framework import Json, gates

Conditions = dict[str, list[tuple[str, str, str]]]
"""Workload name -> sorted (type, reason, message) of its Evicted and Preempted conditions that hold."""


def micros(time: str) -> Micros:
    """Return the microseconds since the epoch of an RFC 3339 time; finer parts are dropped."""
    moment = datetime.fromisoformat(time)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def targets_of(case: Json, header: Json) -> tuple[World, Workload, list[Target]]:
    """Set up the case's world and ask it for preemption targets."""
    given = case["input"]
    world = _world(case, header)
    for manifest in given.get("Workload") or ():
        workload = workload_of(manifest, world.config)
        world.workloads[workload.key] = workload
        if workload.cluster_queue:
            reserve(world, workload)
    incoming = workload_of(given["incoming"], world.config)
    incoming.cluster_queue = given["targetCQ"]
    usage, short = _request(given["incomingTotalRequests"] or (), given["assignment"])
    before = {name: node.usage for name, node in _nodes(world)}
    targets = get_targets(world, incoming, usage, short)
    after = {name: node.usage for name, node in _nodes(world)}
    assert before == after, "the world is not as it was before"
    return world, incoming, targets


def workload_of(manifest: Json, config: kueue.ConfigurationSpec) -> Workload:
    """Build a workload with its reservation, if it has one; ask `reserve` to charge it."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or () if c["status"] == "True"}
    record = WorkloadRecord(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        queue_name=spec.get("queueName", ""),
        created_at=micros(metadata["creationTimestamp"]) if metadata.get("creationTimestamp") else 0,
        pod_sets=(),
        priority=int(spec.get("priority") or 0),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
    )
    workload = Workload(record, WorkloadKey(record.key), record.uid, effective_priority(record, config))
    if (reserved := conditions.get("QuotaReserved")) is not None:
        workload.reserved_at = micros(reserved["lastTransitionTime"])
    if (evicted := conditions.get("Evicted")) is not None:
        workload.evicted_at = micros(evicted["lastTransitionTime"])
        workload.evicted_reason = evicted["reason"]
    if (admission := status.get("admission")) is not None:
        workload.cluster_queue = admission["clusterQueue"]
        workload.usage = _usage(admission["podSetAssignments"])
    return workload


def conditions_after(world: World, incoming: Workload, targets: Sequence[Target], given: Json) -> Conditions:
    """Return the conditions after the targets have been told to go; who is leaving already is left alone."""
    conditions = conditions_of(given.get("Workload") or ())
    queues = world.cluster_queues
    for target in targets:
        victim = target.workload
        if victim.evicted_at is None:
            message = preemption_message(
                incoming,
                target.reason,
                queues[incoming.cluster_queue].node,
                queues[victim.cluster_queue].node,
            )
            kept = [c for c in conditions.get(victim.record.name, ()) if c[0] not in ("Evicted", "Preempted")]
            conditions[victim.record.name] = sorted(
                [*kept, ("Evicted", "Preempted", message), ("Preempted", target.reason, message)]
            )
    return conditions


def conditions_of(manifests: Iterable[Json]) -> Conditions:
    return {
        manifest["metadata"]["name"]: sorted(
            (c["type"], c["reason"], c["message"])
            for c in (manifest.get("status") or {}).get("conditions") or ()
            if c["type"] in ("Evicted", "Preempted") and c["status"] == "True"
        )
        for manifest in manifests
    }


def check_classical(case: Json, header: Json) -> None:
    """Compare the number of victims, and every workload's conditions, with what the case expects."""
    world, incoming, targets = targets_of(case, header)
    expect = case["expect"]
    wanted = conditions_of(expect["wantWorkloads"] or ())
    actual = conditions_after(world, incoming, targets, case["input"])
    for name in sorted({*wanted, *actual}):
        assert actual.get(name) == wanted.get(name), (
            f"{name}: {actual.get(name)}, expected {wanted.get(name)}"
        )
    assert len(targets) == expect["wantPreempted"], (
        f"{len(targets)} victims, expected {expect['wantPreempted']}"
    )


def _world(case: Json, header: Json) -> World:
    options = case["options"]
    fair = bool(options.get("fairSharing"))
    world = world_of(case["input"], gates(case, header), fair_sharing=fair)
    strategies = options.get("fairSharingPreemptionStrategiesConfigured") or []
    fair_sharing = kueue.FairSharingConfig(enable=fair, preemption_strategies=strategies)
    world.config = msgspec.structs.replace(world.config, fair_sharing=fair_sharing)
    for kind, nodes in (("ClusterQueue", world.tree.cluster_queues), ("Cohort", world.tree.cohorts)):
        for manifest in case["input"].get(kind) or ():
            given = manifest["spec"].get("fairSharing")
            nodes[manifest["metadata"]["name"]].weight = weight(
                msgspec.convert(given, kueue.FairSharing) if given is not None else None
            )
    return world


def _nodes(world: World) -> list[tuple[str, Any]]:
    tree = world.tree
    return [*(("queue " + n, v) for n, v in tree.cluster_queues.items()), *tree.cohorts.items()]


def _usage(assignments: Iterable[Json]) -> dict[FlavorResource, int]:
    usage: dict[FlavorResource, int] = {}
    for pod_set in assignments:
        used = pod_set.get("resourceUsage") or {}
        for resource, flavor in (pod_set.get("flavors") or {}).items():
            amount = resource_value(resource, used.get(resource, 0))
            usage[flavor, resource] = usage.get((flavor, resource), 0) + amount
    return usage


def _request(
    requests: Iterable[Json], assignment: Json
) -> tuple[dict[FlavorResource, int], list[FlavorResource]]:
    """Return what the incoming workload would charge, and which of it needs preemption."""
    usage: dict[FlavorResource, int] = {}
    short: dict[FlavorResource, None] = {}
    flavors: Mapping[str, Json] = {ps["name"]: ps["flavors"] or {} for ps in assignment["podSets"] or ()}
    for pod_set in requests:
        for resource, amount in (pod_set["requests"] or {}).items():
            given = flavors.get(pod_set["name"], {}).get(resource)
            if given is None:
                continue
            fr = (given["name"], resource)
            usage[fr] = usage.get(fr, 0) + amount
            if given["mode"] == "Preempt":
                short[fr] = None
    return usage, list(short)
