"""A workload as Kueue's users know it: conditions, admission, checks, requeue state (G5)."""

from collections.abc import Mapping
from typing import Final, Literal

from sluice.api import kueue
from sluice.api.core_v1 import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
)
from sluice.api.labels import GATE_CONCURRENT_ADMISSION
from sluice.api.meta import Condition, ObjectMeta, OwnerReference
from sluice.api.quantity import Quantity, format_value
from sluice.core.timing import MICROS_PER_S
from sluice.core.views.records import ShownCondition, WorkloadView
from sluice.core.views.state import State
from sluice.core.workload.admission_checks import CheckState
from sluice.core.workload.reasons import WAIT_FOR_START, WAIT_FOR_START_MESSAGE
from sluice.events.base import Micros, PodSet
from sluice.events.slices import WorkloadRecord

from .pending import why_pending
from .times import timestamp
from .unadmitted import check_states, in_order, why_unadmitted

BLOCKED: Final = "BlockedOnPreemptionGates"
GATED: Final = "PreemptionGated"
UNGATED: Final = "PreemptionUngated"
TURN_OVER: Final = "The preemption gate is closed again: its turn to preempt is over"

_ORDER = ("Evicted", "Preempted", "Requeued", "PodsReady", "DeactivationTarget", BLOCKED)


def to_manifest(view: State, workload: WorkloadView) -> kueue.Workload:
    """Return the workload with its status."""
    return kueue.Workload(
        kind="Workload",
        metadata=_metadata(workload),
        spec=_spec(workload),
        status=status(view, workload),
    )


def status(view: State, workload: WorkloadView) -> kueue.WorkloadStatus:
    """Return the status alone."""
    return kueue.WorkloadStatus(
        admission=_admission(workload),
        conditions=conditions(view, workload),
        reclaimable_pods=[
            kueue.ReclaimablePod(name=name, count=count) for name, count in workload.reclaimable.items()
        ],
        admission_checks=[_check(state) for state in check_states(workload)],
        requeue_state=_requeue_state(workload),
        resource_requests=[] if workload.assignment is not None else _requests(workload.record),
        accumulated_past_execution_time_seconds=workload.past_execution_us // MICROS_PER_S or None,
        scheduling_stats=_stats(workload),
        preemption_gates=[_gate(workload, name) for name in workload.record.preemption_gates],
        variants=[_variant(view, variant) for variant in in_order(workload)],
    )


def conditions(view: State, workload: WorkloadView) -> list[Condition]:
    """Return the conditions of G5 that the workload has."""
    found = []
    if workload.assignment is not None or workload.finished_at is None:
        found.append(_quota_reserved(view, workload))
        found.append(_admitted(view, workload))
    recorded = _with_gate(workload)
    if "PodsReady" not in recorded and _waits_for_pods(view, workload):
        found.append(_pods_not_ready(workload))
    found += [_condition(kind, recorded[kind]) for kind in (*_ORDER, "Finished") if kind in recorded]
    return found


def _variant(view: State, variant: WorkloadView) -> kueue.WorkloadVariantStatus:
    """Return what a parent's status says of a variant (CA8)."""
    return kueue.WorkloadVariantStatus(
        name=variant.record.name,
        resource_flavors=list(variant.record.allowed_flavors),
        active=variant.active,
        conditions=conditions(view, variant),
    )


def _gate(workload: WorkloadView, name: str) -> dict[str, object]:
    is_open, since = workload.gates.get(name, (False, workload.created_at))
    position = "Open" if is_open else "Closed"
    return {"name": name, "position": position, "lastTransitionTime": timestamp(since)}


# Conditions


def _with_gate(workload: WorkloadView) -> Mapping[str, ShownCondition]:
    """Return what was recorded, but that a gate which was opened, and is closed again, blocks (CA11).

    That is seen of the gate itself: the scheduler says of it what it says of others only when it looks again.
    """
    blocked = workload.conditions.get(BLOCKED)
    is_open, since = workload.gates.get(GATE_CONCURRENT_ADMISSION, (True, 0))
    if blocked is None or blocked.status or is_open or blocked.reason != UNGATED:
        return workload.conditions
    if workload.assignment is not None or not workload.active or workload.finished_at is not None:
        return workload.conditions
    over = ShownCondition(True, GATED, TURN_OVER, since, workload.generation)
    return {**workload.conditions, BLOCKED: over}


def _quota_reserved(view: State, workload: WorkloadView) -> Condition:
    if workload.assignment is not None and workload.cluster_queue is not None:
        message = workload.cluster_queue.reserved_message
        recorded = ShownCondition(
            True, "QuotaReserved", message, workload.reserved_at or 0, workload.reserved_generation
        )
        return _condition("QuotaReserved", recorded)
    reason, message = why_pending(view, workload)
    since = workload.created_at if workload.released_at is None else workload.released_at
    return _condition("QuotaReserved", ShownCondition(False, reason, message, since, workload.generation))


def _admitted(view: State, workload: WorkloadView) -> Condition:
    generation = workload.generation
    if workload.admitted_at is not None:
        return _condition(
            "Admitted",
            ShownCondition(
                True,
                "Admitted",
                workload.admitted_message or "The workload is admitted",
                workload.admitted_at,
                generation,
            ),
        )
    since = workload.created_at if workload.unadmitted_at is None else workload.unadmitted_at
    return _condition("Admitted", ShownCondition(False, *why_unadmitted(view, workload), since, generation))


def _waits_for_pods(view: State, workload: WorkloadView) -> bool:
    return view.config.wait_for_pods_ready.enable and workload.admitted_at is not None


def _pods_not_ready(workload: WorkloadView) -> Condition:
    since = workload.admitted_at or 0
    why = (WAIT_FOR_START, WAIT_FOR_START_MESSAGE)
    return _condition("PodsReady", ShownCondition(False, *why, since, workload.generation))


def _condition(kind: str, recorded: ShownCondition) -> Condition:
    return Condition(
        type=kind,
        status="True" if recorded.status else "False",
        reason=recorded.reason,
        message=recorded.message,
        last_transition_time=timestamp(recorded.since),
        observed_generation=recorded.generation,
    )


# The rest of the status


def _admission(workload: WorkloadView) -> kueue.Admission | None:
    if workload.assignment is None or workload.cluster_queue is None:
        return None
    return kueue.Admission(
        cluster_queue=workload.cluster_queue.name,
        pod_set_assignments=[
            kueue.PodSetAssignment(
                name=assigned.name,
                flavors=dict(assigned.flavors),
                resource_usage=_quantities(assigned.usage),
                count=assigned.count,
            )
            for assigned in workload.assignment
        ],
    )


def _check(state: CheckState) -> kueue.AdmissionCheckState:
    return kueue.AdmissionCheckState(
        name=state.name,
        state=_STATES.get(state.state, ""),
        last_transition_time=_time(state.at),
        message=state.message,
        requeue_after_seconds=state.requeue_after_s,
        retry_count=state.retry_count or None,
        pod_set_updates=list(state.pod_set_updates),
    )


_STATES: dict[str, Literal["Pending", "Ready", "Retry", "Rejected"]] = {
    "Pending": "Pending",
    "Ready": "Ready",
    "Retry": "Retry",
    "Rejected": "Rejected",
}


def _requeue_state(workload: WorkloadView) -> kueue.RequeueState | None:
    if not workload.requeue_count and workload.requeue_at is None:
        return None
    return kueue.RequeueState(count=workload.requeue_count or None, requeue_at=_time(workload.requeue_at))


def _stats(workload: WorkloadView) -> dict[str, object] | None:
    if not workload.evictions:
        return None
    return {
        "evictions": [
            {"reason": reason, "underlyingCause": cause, "count": count}
            for (reason, cause), count in workload.evictions.items()
        ]
    }


def _requests(record: WorkloadRecord) -> list[kueue.PodSetRequest]:
    return [
        kueue.PodSetRequest(
            name=pod_set.name,
            resources=_quantities({r: amount * pod_set.count for r, amount in pod_set.requests.items()}),
        )
        for pod_set in record.pod_sets
        if pod_set.requests
    ]


def _quantities(amounts: dict[str, int]) -> dict[str, Quantity]:
    return {resource: format_value(resource, amount) for resource, amount in amounts.items()}


def _time(at: Micros | None) -> str | None:
    return None if at is None else timestamp(at)


# Metadata and spec


def _metadata(workload: WorkloadView) -> ObjectMeta:
    record = workload.record
    return ObjectMeta(
        name=record.name,
        namespace=record.namespace,
        uid=record.uid,
        generation=workload.generation,
        creation_timestamp=timestamp(workload.created_at),
        labels=dict(record.labels),
        annotations=dict(record.annotations),
        owner_references=_owners(record),
    )


def _owners(record: WorkloadRecord) -> list[OwnerReference]:
    if record.parent is not None:
        name = record.parent.partition("/")[2]
        return [
            OwnerReference(
                api_version=kueue.API_VERSION,
                kind="Workload",
                name=name,
                uid=record.parent_uid or "",
                controller=True,
                block_owner_deletion=True,
            )
        ]
    job = record.job
    if job is None:
        return []
    name = job.key.partition("/")[2]
    return [
        OwnerReference(
            api_version=job.api_version,
            kind=job.kind,
            name=name,
            uid=job.uid,
            controller=True,
            block_owner_deletion=True,
        )
    ]


def _spec(workload: WorkloadView) -> kueue.WorkloadSpec:
    record = workload.record
    priority_class = None
    if record.priority_class:
        priority_class = kueue.PriorityClassRef(
            group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name=record.priority_class
        )
    constraints = None
    if record.allowed_flavors or record.cannot_preempt or record.cannot_borrow:
        constraints = kueue.AdmissionConstraints(
            allowed_resource_flavors=list(record.allowed_flavors),
            preemption="Never" if record.cannot_preempt else None,
            borrowing="Never" if record.cannot_borrow else None,
        )
    return kueue.WorkloadSpec(
        pod_sets=[_pod_set(pod_set) for pod_set in record.pod_sets],
        queue_name=record.queue_name,
        priority_class_ref=priority_class,
        priority=record.priority,
        active=workload.active,
        maximum_execution_time_seconds=record.maximum_execution_time_s,
        preemption_gates=[kueue.PreemptionGate(name=name) for name in record.preemption_gates],
        admission_constraints=constraints,
    )


def _pod_set(pod_set: PodSet) -> kueue.WorkloadPodSet:
    """Return what scheduling knows of the pods; images and commands stay with the job."""
    affinity = None
    if pod_set.node_affinity:
        terms = NodeSelector(node_selector_terms=list(pod_set.node_affinity))
        affinity = Affinity(
            node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=terms)
        )
    container = Container(
        name=pod_set.name, resources=ResourceRequirements(requests=_quantities(pod_set.requests))
    )
    return kueue.WorkloadPodSet(
        name=pod_set.name,
        count=pod_set.count,
        min_count=pod_set.min_count,
        template=PodTemplateSpec(
            metadata=ObjectMeta(labels=dict(pod_set.labels), annotations=dict(pod_set.annotations)),
            spec=PodSpec(
                containers=[container],
                node_selector=dict(pod_set.node_selector),
                affinity=affinity,
                tolerations=list(pod_set.tolerations),
            ),
        ),
    )


__all__ = ["check_states"]
