"""The checks projection as a function of the state: which checks are to be performed now."""

from collections.abc import Iterator
from typing import Final

import msgspec

from sluice.core.workload.admission_checks import PENDING, READY
from sluice.events.base import WorkloadKey
from sluice.protocol.checks import CheckedWorkload, CheckRequest

from .state import Reservation, State, Tracked

SHOWN: Final = frozenset(
    {"queue_name", "pod_sets", "priority", "labels", "annotations", "maximum_execution_time_s"}
)
"""What a request says of its workload's record, and an update may change."""


def request(state: State, controller: str, key: WorkloadKey, check: str) -> CheckRequest | None:
    """Return what the controller is asked to do; None when there is nothing (any more)."""
    tracked = state.workloads.get(key)
    reservation = tracked.reservation if tracked is not None else None
    if tracked is None or reservation is None or reservation.over or not reservation.requested:
        return None
    basis = reservation.requested.get(check)
    said = tracked.states.get(check)
    if basis is None or basis.controller != controller or not controller or said is None:
        return None
    if said.state not in (PENDING, READY):
        # It has said that the attempt is over: there is nothing left to do for it.
        return None
    found = state.checks.get(check)
    parameters = found.spec.parameters if found is not None else None
    stored = state.parameters.get((parameters.kind, parameters.name)) if parameters is not None else None
    return CheckRequest(
        workload=_workload(state, tracked, reservation),
        check=check,
        controller=controller,
        attempt=reservation.attempt,
        state="Ready" if said.state == READY else "Pending",
        admitted=reservation.told_admitted,
        preemptions_pending=reservation.told_pending,
        retry_count=said.retry_count,
        parameters=parameters,
        parameters_spec=msgspec.json.decode(stored[1], type=dict) if stored is not None else None,
        pod_sets=tracked.record.pod_sets,
        assignment=reservation.assignment,
        reserved_at=reservation.at,
        since=said.at or reservation.at,
    )


def _workload(state: State, tracked: Tracked, reservation: Reservation) -> CheckedWorkload:
    record = tracked.record
    parent = state.workloads.get(record.parent) if record.parent is not None else None
    job = record.job or (parent.record.job if parent is not None else None)
    return CheckedWorkload(
        namespace=record.namespace,
        name=record.name,
        uid=record.uid,
        job=job.key.partition("/")[2] if job is not None else "",
        job_kind=job.kind if job is not None else "",
        local_queue=record.queue_name,
        cluster_queue=reservation.cluster_queue,
        priority=record.priority,
        labels=record.labels,
        annotations=record.annotations,
        parent=record.parent.partition("/")[2] if record.parent is not None else "",
        max_execution_time_s=record.maximum_execution_time_s,
    )


def requests(state: State) -> Iterator[CheckRequest]:
    """Yield every check that is to be performed now."""
    for members in state.by_queue.values():
        for key in members:
            reservation = state.workloads[key].reservation
            for name, basis in ((reservation and reservation.requested) or {}).items():
                found = request(state, basis.controller, key, name)
                if found is not None:
                    yield found


__all__ = ["request", "requests"]
