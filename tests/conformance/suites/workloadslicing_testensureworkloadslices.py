"""What a new size of a job does to its slices (WS3, WS4)."""

from sluice.core.slices_resize import counts, grows, resize, resizes, same_but_for_size, wanted
from sluice.events.slices import WorkloadCreated, WorkloadUpdated
from tests.conformance.build_slices import counts_of, job_of, pod_sets
from tests.conformance.framework import Json, compare

SUITE = "workloadslicing.TestEnsureWorkloadSlices"
_ONE = "white-box: two slices without quota; a slice without quota is resized in place, so there is only one"
LEFT_OUT = {
    "FailedListWorkloads": "white-box: a failing API client",
    "MoreThanTwoWorkloadSlices": "white-box: more slices than one writer ever makes",
    "OneWorkloadSlice_UpdateFailure": "white-box: a failing API client",
    "TwoWorkloadSlices_NewIsUnreservedAndOutOfSync_UpdateFailure": "white-box: a failing API client",
    "TwoWorkloads_BothUnreserved_NewIsCurrent": _ONE,
    "TwoWorkloads_BothUnreserved_NewIsCurrent_FailureToPatchOldSliceStatus": _ONE,
}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    manifests, expect = case["input"].get("Workload") or [], case["expect"]
    if not manifests:
        compare(expect["workload"], None, "workload")  # nothing to resize: a first workload is made
        return
    state, job = job_of(manifests)
    now = wanted(job)
    new = (
        sorted(pod_sets(case["input"]["jobPodSets"]), key=lambda p: [q.name for q in now].index(p.name))
        if {p["name"] for p in case["input"]["jobPodSets"]} == {p.name for p in now}
        else pod_sets(case["input"]["jobPodSets"])
    )
    compatible = same_but_for_size(now, new)
    compare(compatible, expect["compatible"], "compatible")
    if not compatible:
        return
    if counts(now) == counts(new):
        compare(expect["workload"]["metadata"]["name"], manifests[-1]["metadata"]["name"], "workload")
        return
    if not resizes(state, job):
        # Without quota: changed in place, whatever the size.
        compare(counts_of(expect["workload"]), counts(new), "counts")
        return
    events = resize(state, job, 1, 1, new)
    made = [e for e in events if isinstance(e, WorkloadCreated)]
    compare(bool(made), expect["workload"] is None, "a new slice")
    if made:
        assert grows(counts(job.record.pod_sets), counts(new))
        compare(counts(made[0].workload.pod_sets), counts(new), "counts of the new slice")
        return
    (last,) = [e for e in events if isinstance(e, WorkloadUpdated)][-1:]
    assert last.pod_sets is not None
    compare(last.workload.partition("/")[2], expect["workload"]["metadata"]["name"], "workload")
    compare(counts(last.pod_sets), counts_of(expect["workload"]), "counts")
