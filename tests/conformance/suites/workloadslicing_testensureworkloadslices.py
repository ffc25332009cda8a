"""What a new size of a job does to its slices (WS3, WS4): played through the decider, read from its state."""

from sluice.core.slices.resize import same_but_for_size
from sluice.events.slices import InputsIgnored, Rejected, WorkloadCreated, WorkloadDeleted
from tests.conformance.build_slices import Played, counts_of, pod_sets
from tests.conformance.framework import Json, compare

SUITE = "workloadslicing.TestEnsureWorkloadSlices"
_CLIENT = "white-box: a failing API client"
LEFT_OUT = {
    "FailedListWorkloads": _CLIENT,
    "MoreThanTwoWorkloadSlices": "white-box: an error about more slices than the one writer can make",
    "OneWorkloadSlice_UpdateFailure": _CLIENT,
    "TwoWorkloadSlices_NewIsUnreservedAndOutOfSync_UpdateFailure": _CLIENT,
    "TwoWorkloads_BothUnreserved_NewIsCurrent_FailureToPatchOldSliceStatus": _CLIENT,
}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    """Fold the slices of the case, send the job's new size, and look at which slices there are then.

    The expected workload is the one that stands for the new size; None with `compatible` means that a
    further one has to be made, without it that the job does not go on with its workloads.
    """
    manifests, expect = case["input"].get("Workload") or [], case["expect"]
    given = case["input"]["jobPodSets"] or []
    if not manifests:
        played = Played([])
        compare(None if not played.names() else played.names()[-1], expect["workload"], "workload")
        return
    played = Played(manifests)
    before = played.names()
    wanted = {p["name"]: p.get("count") or 0 for p in given}
    newest = played.newest()
    if wanted.keys() != {pods.name for pods in newest.pod_sets}:
        new = pod_sets(given)
        compare(same_but_for_size(newest.pod_sets, new), expect["compatible"], "compatible")
        events = played.submit(new)
        if played.job.admitted:
            # Other pods of a job that runs are refused, so it is never in slices of another kind.
            assert [type(event) for event in events] == [Rejected]
            compare(played.names(), before, "slices")
        else:
            assert not {*before} & {*played.names()}, "the job goes on with workloads of other pods"
        return
    assert expect["compatible"]
    events = played.scale(wanted)
    made = [event.workload.name for event in events if isinstance(event, WorkloadCreated)]
    assert not any(isinstance(event, WorkloadDeleted) for event in events)
    compare(bool(made), expect["workload"] is None, "a new slice")
    # Whatever happened, the newest slice has the wanted size, and there are two at most.
    compare({pods.name: pods.count for pods in played.newest().pod_sets}, wanted, "counts")
    compare(played.names(), [*before, *made], "slices")
    assert len(played.names()) <= 2
    if made:
        compare(played.newest().replaces, played.keys()[0], "replaced")
        return
    compare(played.newest().name, expect["workload"]["metadata"]["name"], "workload")
    compare(counts_of(expect["workload"]), wanted, "counts of the fixture")
    if {p["name"]: p.get("count") or 0 for p in manifests[-1]["spec"]["podSets"]} == wanted:
        compare([type(event) for event in events], [InputsIgnored], "nothing to do")
