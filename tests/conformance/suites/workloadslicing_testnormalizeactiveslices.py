"""What is left of a job's slices when its quota is lost (WS4, WS6)."""

from sluice.core.slices import SliceAggregator
from sluice.core.slices_state import Phase
from sluice.events.scheduler import QuotaReleased
from sluice.events.slices import WorkloadFinished
from tests.conformance.build_slices import is_true, job_of
from tests.conformance.framework import Json, compare

SUITE = "workloadslicing.TestNormalizeActiveSlices"
_MANY = "white-box: repairs what concurrent writers leave; one writer of slices makes one and its replacement"
LEFT_OUT = {
    "all evicted, survivor is nil": _MANY,
    "forked DAG, both replace same finished target, keep newest": _MANY,
    "forked claim in adversarial order, admitted fork wins over pending": _MANY,
    "four same-second slices, chained replacements, admitted slice survives": _MANY,
    "three workloads, admitted + two pending, keep replacement targeting admitted": _MANY,
    "two pending slices created in the same second": _MANY,
}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    manifests, expect = case["input"]["Workload"], case["expect"]
    assert len(manifests) == 2, _MANY
    assert is_true(manifests[0], "Evicted"), _MANY
    state, job = job_of(manifests)
    assert job.pending is not None
    job.phase, job.admitted = Phase.PENDING, False
    state.jobs[job.key] = state.by_workload[job.record.key] = state.by_workload[job.pending.key] = job
    decider = SliceAggregator()
    decider.apply(state, QuotaReleased(cause=1, workload=job.record.key), 1, 1)
    decided = decider.decide(state, 1)
    finished = [e.workload.partition("/")[2] for e in decided if isinstance(e, WorkloadFinished)]
    for event in decided:
        decider.apply(state, event, 1, 1)
    compare(finished, expect["finished"], "finished")
    compare(job.record.name, expect["survivor"], "survivor")
