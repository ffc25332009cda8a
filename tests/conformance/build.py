"""Manifests of a scheduler case -> the scheduler's state, by the folds that the service uses.

Fixtures are not defaulted and may be incomplete (a queue whose flavors do not exist, a workload whose queue
does not), so objects are folded as they are. Workloads that hold quota come in by the events that gave it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from sluice.api import kueue
from sluice.api.core_v1 import LimitRangeItem
from sluice.api.quantity import resource_value
from sluice.core.scheduler.fold import fold
from sluice.core.scheduler.state import SchedulerState, new_state
from sluice.core.slices.job_request import manifest_requests, resources_of
from sluice.core.slices.limits import with_requests
from sluice.core.workload.limit_ranges import Rules
from sluice.core.workload.pod_resources import Amounts
from sluice.core.world.workload import Workload
from sluice.events.base import Micros, PodSetAssignment, WorkloadKey
from sluice.events.scheduler import Admitted, Evicted, QuotaReserved
from sluice.events.slices import WorkloadCreated, WorkloadRecord
from tests.support.objects import applied

from .build_flavors import ALLOWED_FLAVORS
from .framework import Json, gates

KINDS = ("Namespace", "ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue")


def micros(time: str | None) -> Micros:
    """Return the microseconds since the epoch of an RFC 3339 time; 0 without one."""
    if time is None:
        return 0
    return int(datetime.fromisoformat(time).timestamp() * 1_000_000)


def now_of(case: Json) -> Micros:
    return micros(case["now"])


def state_of(case: Json, header: Json) -> SchedulerState:
    """Fold everything that the case has."""
    state = new_state()
    given = case["input"]
    _apply(state, "Configuration", {"metadata": {"name": "default"}, "spec": configuration(case, header)})
    waited_for = _unlisted_checks(given)
    for name in sorted({name for names in waited_for.values() for name in names}):
        _apply(state, "AdmissionCheck", {"metadata": {"name": name}, "spec": {"controllerName": "c"}})
    for kind in KINDS:
        for manifest in given.get(kind) or ():
            plain = {key: value for key, value in manifest.items() if key != "status"}
            if kind == "ClusterQueue":
                plain["spec"] = _cluster_queue(plain["spec"], waited_for.get(plain["metadata"]["name"], ()))
            _apply(state, kind, plain)
    rules = rules_by_namespace(given)
    for manifest in given.get("Workload") or ():
        add_workload(state, manifest, rules)
    return state


def rules_by_namespace(given: Json) -> dict[str, Rules]:
    """Return what the case's limit ranges and runtime classes say of each of its namespaces.

    As they are: the fixtures have not been defaulted.
    """
    overheads: dict[str, Amounts] = {}
    for manifest in given.get("RuntimeClass") or ():
        fixed = (manifest.get("overhead") or {}).get("podFixed") or {}
        overheads[manifest["metadata"]["name"]] = {n: resource_value(n, q) for n, q in fixed.items()}
    items: dict[str, list[LimitRangeItem]] = {}
    for manifest in given.get("Workload") or ():
        items[manifest["metadata"].get("namespace", "")] = []
    for manifest in given.get("LimitRange") or ():
        limits = msgspec.convert(manifest["spec"]["limits"], list[LimitRangeItem])
        items.setdefault(manifest["metadata"]["namespace"], []).extend(limits)
    return {namespace: Rules(found, overheads) for namespace, found in items.items()}


def _cluster_queue(spec: Json, checks: Sequence[str]) -> Json:
    changed = dict(spec)
    if checks:
        rules = [{"name": name} for name in checks]
        changed["admissionChecksStrategy"] = {"admissionChecks": rules}
    if "preemption" in spec:
        # Fixtures are not defaulted to Never, and the reference takes what is left out for this.
        changed["preemption"] = {"reclaimWithinCohort": "LowerPriority", **spec["preemption"]}
    return changed


def _unlisted_checks(given: Json) -> dict[str, list[str]]:
    """Checks that workloads wait for although their queue lists none: the fixtures leave them out."""
    target = {
        f"{queue['metadata']['namespace']}/{queue['metadata']['name']}": queue["spec"]["clusterQueue"]
        for queue in given.get("LocalQueue") or ()
    }
    found: dict[str, list[str]] = {}
    for manifest in given.get("Workload") or ():
        key = f"{manifest['metadata']['namespace']}/{manifest['spec'].get('queueName', '')}"
        for check in (manifest.get("status") or {}).get("admissionChecks") or ():
            if check["state"] != "Ready" and key in target:
                found.setdefault(target[key], []).append(check["name"])
    return found


def configuration(case: Json, header: Json) -> Json:
    options = case["options"]
    strategies = options.get("fairSharingPreemptionStrategies") or []
    return {
        "featureGates": gates(case, header),
        "fairSharing": {"enable": bool(options.get("fairSharing")), "preemptionStrategies": strategies},
    }


def _apply(state: SchedulerState, kind: str, manifest: Json) -> None:
    fold(state, applied({**manifest, "kind": kind}), 0, 0)


def _of_family(state: SchedulerState, record: WorkloadRecord) -> WorkloadRecord:
    """Return the variant with its preference; its parent, which the cases leave out, is folded first."""
    parent = record.parent
    assert parent is not None
    if parent not in state.world.workloads:
        name = parent.partition("/")[2]
        made = msgspec.structs.replace(record, name=name, uid=name, queue_name="", parent=None)
        fold(state, WorkloadCreated(cause=0, workload=made), 0, 0)
    local = state.world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    cq = state.world.cluster_queues.get(local.cluster_queue) if local is not None else None
    flavors = [flavor for group in cq.groups for flavor in group.flavors] if cq is not None else []
    allowed = record.allowed_flavors[0] if record.allowed_flavors else ""
    place = flavors.index(allowed) if allowed in flavors else 0
    return msgspec.structs.replace(record, preference=place, parent_uid=parent)


def add_workload(state: SchedulerState, manifest: Json, rules: Mapping[str, Rules] | None = None) -> Workload:
    """Fold a workload and what its status says: quota, admission, eviction."""
    record = record_of(manifest, (rules or {}).get(manifest["metadata"].get("namespace", "")))
    if record.parent is not None:
        record = _of_family(state, record)
    fold(state, WorkloadCreated(cause=0, workload=record), 0, 0)
    workload = state.world.workloads[record.key]
    status = manifest.get("status") or {}
    held = {c["type"]: c for c in status.get("conditions") or () if c["status"] == "True"}
    admission = status.get("admission")
    if admission is not None:
        reserved_at = micros(held["QuotaReserved"]["lastTransitionTime"])
        pod_sets = tuple(map(_assigned, admission["podSetAssignments"]))
        event = QuotaReserved(
            cause=0, workload=record.key, cluster_queue=admission["clusterQueue"], pod_sets=pod_sets
        )
        fold(state, event, 0, reserved_at)
        if "Admitted" in held:
            fold(state, Admitted(cause=0, workload=record.key), 0, reserved_at)
    if (evicted := held.get("Evicted")) is not None:
        at = micros(evicted["lastTransitionTime"])
        if admission is not None:
            fold(state, Evicted(cause=0, workload=record.key, reason=evicted["reason"]), 0, at)
        else:
            workload.last_evicted_at, workload.last_evicted_reason = at, evicted["reason"]
    return workload


def _assigned(manifest: Json) -> PodSetAssignment:
    return PodSetAssignment(
        name=manifest["name"],
        count=manifest.get("count", 1),
        flavors=manifest.get("flavors", {}),
        usage={name: resource_value(name, q) for name, q in manifest.get("resourceUsage", {}).items()},
    )


def record_of(manifest: Json, rules: Rules | None = None) -> WorkloadRecord:
    """Return the record that the slice-aggregator would make of a Workload manifest.

    Without quota it is what limit ranges make of it: see `slices.limits`.
    """
    obj = msgspec.convert({**manifest, "status": {}}, kueue.Workload)
    metadata, spec = obj.metadata, obj.spec
    allowed = metadata.annotations.get(ALLOWED_FLAVORS, "")
    owner = next((o for o in metadata.owner_references if o.kind == "Workload" and o.controller), None)
    pod_sets, misconfigured = manifest_requests(obj), ""
    if rules is not None and (manifest.get("status") or {}).get("admission") is None:
        judged = rules.judged(resources_of(obj))
        pod_sets, misconfigured = with_requests(pod_sets, judged), judged.message
    return WorkloadRecord(
        namespace=metadata.namespace,
        name=metadata.name,
        # Ties are broken by uid, and most fixtures have none.
        uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
        queue_name=spec.queue_name,
        created_at=micros(metadata.creation_timestamp),
        pod_sets=pod_sets,
        misconfigured=misconfigured,
        priority=spec.priority or 0,
        active=spec.active is not False,
        maximum_execution_time_s=spec.maximum_execution_time_seconds,
        preemption_gates=tuple(gate.name for gate in spec.preemption_gates),
        allowed_flavors=tuple(allowed.split(",")) if allowed else (),
        labels=metadata.labels,
        annotations=metadata.annotations,
        parent=WorkloadKey(f"{metadata.namespace}/{owner.name}") if owner is not None else None,
    )


def admissions(state: SchedulerState) -> dict[str, Json]:
    """Return `status.admission` of every workload with quota, by key, amounts in base units."""
    return {
        key: {
            "clusterQueue": workload.cluster_queue,
            "podSetAssignments": [
                {
                    "name": part.name,
                    "count": part.count,
                    "flavors": dict(part.flavors),
                    "resourceUsage": dict(part.usage),
                }
                for part in workload.assignment
            ],
        }
        for key, workload in state.world.workloads.items()
        if workload.assignment is not None
    }


def wanted_admission(admission: Mapping[str, Any]) -> Json:
    """Return a recorded admission in the form of `admissions`."""
    return {
        "clusterQueue": admission["clusterQueue"],
        "podSetAssignments": [
            msgspec.to_builtins(
                {
                    "name": part.name,
                    "count": part.count,
                    "flavors": dict(part.flavors),
                    "resourceUsage": dict(part.usage),
                }
            )
            for part in map(_assigned, admission["podSetAssignments"])
        ],
    }
