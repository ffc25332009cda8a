"""Families of the recorded cases as the variant-controller knows them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sluice.api import kueue
from sluice.core.variants.fold import HANDLERS
from sluice.core.variants.state import Family, State, Variant
from sluice.events.base import PodSetAssignment
from sluice.events.config import ObjectApplied
from tests.support.objects import applied

from .build import micros, record_of
from .framework import Json

GATE = "kueue.x-k8s.io/concurrent-admission"


def apply_object(state: State, kind: str, manifest: Json) -> None:
    HANDLERS[ObjectApplied](state, applied({**manifest, "kind": kind}), 1, 1)


def plain_queue(name: str, flavors: Sequence[str]) -> Json:
    """Return a queue with concurrent admission."""
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": f, "resources": []} for f in flavors]}]
    policy = {"migration": {"mode": "TryPreferredFlavors"}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "metadata": {"name": name},
        "spec": {"resourceGroups": groups, "concurrentAdmissionPolicy": policy},
    }


def spec_of(manifest: Json, *, force: bool = False) -> kueue.ClusterQueueSpec:
    """Return the spec of a queue; *force*: with a policy, if it has none."""
    spec = dict(manifest["spec"])
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            flavor.setdefault("resources", [])
    if force:
        spec.setdefault("concurrentAdmissionPolicy", {"migration": {"mode": "TryPreferredFlavors"}})
    return msgspec.convert(spec, kueue.ClusterQueueSpec)


def conditions_of(manifest: Json) -> dict[str, Json]:
    return {c["type"]: c for c in (manifest.get("status") or {}).get("conditions") or ()}


def variant_of(manifest: Json) -> Variant:
    """Return a variant and what its status says."""
    record = record_of(manifest)
    status = manifest.get("status") or {}
    held = conditions_of(manifest)

    def is_true(kind: str) -> bool:
        return kind in held and held[kind]["status"] == "True"

    variant = Variant(
        record, record.allowed_flavors[0] if record.allowed_flavors else "", active=record.active
    )
    variant.blocked = is_true("BlockedOnPreemptionGates")
    variant.evaluated = variant.blocked or "QuotaReserved" in held
    for gate in status.get("preemptionGates") or ():
        if gate["name"] == GATE and gate["position"] == "Open":
            variant.gate_at = micros(gate["lastTransitionTime"])
    admission = status.get("admission")
    if admission is not None:
        variant.cluster_queue = admission["clusterQueue"]
        variant.assignment = tuple(map(_assigned, admission["podSetAssignments"]))
    if is_true("Admitted"):
        variant.admitted_at = micros(held["Admitted"]["lastTransitionTime"])
    if is_true("Evicted"):
        variant.evicted = True
        variant.evicted_reason, variant.evicted_message = (
            held["Evicted"]["reason"],
            held["Evicted"]["message"],
        )
    variant.ready = is_true("PodsReady")
    return variant


def _assigned(part: Json) -> PodSetAssignment:
    return PodSetAssignment(
        name=part["name"], count=part.get("count", 1), flavors=part.get("flavors", {}), usage={}
    )


def family_of(case: Json) -> tuple[State, Family] | None:
    """Return the state of a case and the requested family, None when there is no such parent."""
    given: dict[str, Any] = case["input"]
    state = State()
    for queue in given.get("ClusterQueue") or ():
        spec = msgspec.to_builtins(spec_of(queue))
        apply_object(state, "ClusterQueue", {**queue, "spec": spec})
    for local in given.get("LocalQueue") or ():
        apply_object(state, "LocalQueue", local)
    name = given["request"]["name"]
    manifests = given.get("Workload") or ()
    parent = next((m for m in manifests if m["metadata"]["name"] == name), None)
    if parent is None:
        return None
    record = record_of(parent)
    record = msgspec.structs.replace(record, uid=parent["metadata"].get("uid", ""))
    family = Family(record, record.key, record.created_at, marked=True, active=record.active)
    state.families[family.key] = family
    for manifest in manifests:
        if manifest is parent:
            continue
        variant = variant_of(manifest)
        policy = state.policy_of(family)
        order = [wanted.name for wanted in policy.wanted] if policy is not None else []
        place = order.index(variant.name) if variant.name in order else len(order)
        variant.record = msgspec.structs.replace(variant.record, preference=place)
        family.variants[variant.key] = variant
        state.of_variant[variant.key] = family
    family.arrange()
    held = conditions_of(parent)
    if "Admitted" in held and held["Admitted"]["status"] == "True":
        runs = (parent.get("status") or {})["admission"]["podSetAssignments"][0]["flavors"]["cpu"]
        family.running = next(v.key for v in family.variants.values() if v.name == runs)
        family.ready = "PodsReady" in held and held["PodsReady"]["status"] == "True"
    return state, family
