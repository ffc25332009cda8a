"""Admission after checks, reasons of pending workloads, retention of finished ones."""

from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.state import Finished
from sluice.events.base import JobKey, WorkloadKey
from sluice.events.ids import uid
from sluice.events.slices import WorkloadDeleted
from tests.conformance.build_status import SECOND, conditions_of, configuration, micros, seconds
from tests.conformance.framework import Json
from tests.conformance.reconcile import run_reconcile

SUITE = "core.TestReconcile"

_FINALIZERS = "white-box: finalizers of Kubernetes objects; a deleted workload is a WorkloadDeleted event"

LEFT_OUT = {
    "don't remove finalizer for owned finished workload": _FINALIZERS,
    "remove finalizer for deleted orphaned workload with FinishOrphanedWorkloads disabled": _FINALIZERS,
    "remove finalizer for deleted orphaned workload with FinishOrphanedWorkloads enabled": _FINALIZERS,
    "remove finalizer for finished workload": _FINALIZERS,
    "remove finalizer for orphaned workload with JobUID label and FinishOrphanedWorkloads disabled": (
        _FINALIZERS
    ),
    "remove finalizer for orphaned workload with JobUID label and FinishOrphanedWorkloads enabled": (
        "deviates: WS8 a workload goes with its job, so that none is left to be finished as OwnerNotFound"
    ),
    "should remove finalizer from owned finished workload already being deleted, "
    "object retention configured": _FINALIZERS,
    "shouldn't handle finished workload logic for orphaned workloads on error when "
    "FinishOrphanedWorkloads enabled": "white-box: a failing status patch of the API client",
    "inadmissible workload due to broken ClusterQueue namespace selector (observability enabled)": (
        "white-box: a hook breaks the selector behind validation, which refuses it"
    ),
    "reconcile bypassed workload when SchedulingEquivalenceHashing is enabled (stale status -> bypassed "
    "status)": "white-box: a hook requeues the workload in the queue manager",
}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    (manifest,) = case["input"]["Workload"]
    finished = conditions_of(manifest).get("Finished")
    if finished is not None and finished["status"] == "True":
        _run_retention(case, micros(finished["lastTransitionTime"]) or 0)
    else:
        run_reconcile(case)


def _run_retention(case: Json, finished_at: int) -> None:
    """Finished workloads go when their retention is over; the slice-aggregator decides that."""
    now = micros(case["now"])
    assert now is not None
    decider = SliceAggregator()
    state = decider.initial()
    state.config = configuration(case["options"])
    key, workload = JobKey("ns/job"), WorkloadKey("ns/wl")
    state.finished[key] = Finished(key, uid(1), workload, finished_at, 1, "")
    state.finished_workloads[workload] = key
    deleted = WorkloadDeleted(workload=workload, cause=1) in decider.decide(state, now)
    expected = not case["observed"]["workloads"]
    assert deleted == expected, f"deleted: expected {expected}, got {deleted}"
    after_s = seconds(case["expect"]["wantResult"]["requeueAfter"])
    if after_s:
        deadline = decider.deadline(state)
        assert deadline == now + after_s * SECOND, f"deadline: expected in {after_s} s, got {deadline}"
