"""Changes that would admit a workload with quota, which waits for checks or for preemptions (AC6, AC7)."""

from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.workload import Workload
from sluice.events.base import Event
from sluice.events.checks import ChecksReady, ChecksRejected
from sluice.events.slices import WorkloadStopped
from sluice.replay.views.pending_preemptions import checks_wait, leaving_sibling, preemptors_in

from .executors import Executors
from .remedy import Remedy, if_so
from .sandbox import Sandbox
from .stopping import leavers, must_stop

TRIED = 3
"""Reservations whose end is tried."""


def passing(
    sandbox: Sandbox, state: SchedulerState, workload: Workload, executors: Executors | None
) -> list[Remedy]:
    """Return what its admission takes, decided on a copy; [] when not even that would admit it.

    Its checks must all be Ready, and whom it preempts must stop: neither alone is enough, so there is no
    smaller change.
    """
    key = workload.key
    world = state.world
    leaves = leaving_sibling(world, workload)
    leaving = [*sorted(workload.victims), *([leaves.key] if leaves is not None else [])]
    events: list[Event] = [
        WorkloadStopped(cause=0, workload=one)
        for one in leaving
        if world.workloads[one].evicted_at is not None and not world.workloads[one].stopped
    ]
    waits = checks_wait(world, workload)
    if waits:
        ready = ChecksReady(cause=0, workload=workload.key, attempt=workload.reservations)
        events.append(ready)
    outcome = sandbox.attempt(events, key)
    victims = ", ".join(leaving)
    if not outcome.admitted:
        # Looked at again when all is ready, it gives its quota up (AC7).
        return []
    if not waits:
        leavers = [world.workloads[one] for one in leaving if not world.workloads[one].stopped]
        text = must_stop(state, executors, leavers, victims) if victims else "nothing but the next decisions"
        return [Remedy("stop", text, smallest=True, preempts=len(outcome.preempted))]
    after = f"; then {victims} must stop" if victims else ""
    return [Remedy("check", f"Ready from its checks{after}", smallest=True, preempts=len(outcome.preempted))]


def giving_up(
    sandbox: Sandbox, state: SchedulerState, workload: Workload, executors: Executors | None
) -> list[Remedy]:
    """Find a reservation with pending preemptions whose end would let the workload in."""
    cq = state.world.cluster_queues.get(workload.cluster_queue)
    if cq is None:
        return []
    preemptors = [w for w in preemptors_in(state, cq) if w is not workload]
    patient = sandbox.patient(leavers(state, workload, executors))
    found: list[Remedy] = []
    for preemptor in preemptors[:TRIED]:
        event = ChecksRejected(
            cause=0, workload=preemptor.key, attempt=preemptor.reservations, checks=("rejected",)
        )
        text = f"{preemptor.key} giving up the quota that is promised to it (its checks reject it)"
        if found := if_so(patient, workload.key, "claim", text, event):
            break
    sandbox.trials += patient.trials
    return found
