"""Which slices are left of several (WS4, WS6): played through the decider, read from its state."""

from sluice.events.slices import WorkloadDeleted, WorkloadFinished
from tests.conformance.build_slices import Played, is_true
from tests.conformance.framework import Json, compare

SUITE = "workloadslicing.TestNormalizeActiveSlices"
_FORK = (
    "white-box: repairs two claims to one slice's place, which concurrent writers leave; there is one writer"
)
LEFT_OUT = {
    "all evicted, survivor is nil": "deviates: WS4 the newest slice queues again, not one more like it",
    "forked DAG, both replace same finished target, keep newest": _FORK,
    "forked claim in adversarial order, admitted fork wins over pending": _FORK,
    "four same-second slices, chained replacements, admitted slice survives": _FORK,
    "three workloads, admitted + two pending, keep replacement targeting admitted": _FORK,
}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    manifests, expect = case["input"]["Workload"], case["expect"]
    played = Played(manifests)
    events = played.settle()
    if is_true(manifests[0], "Evicted"):
        events += played.stop()
    gone = (WorkloadFinished, WorkloadDeleted)
    ended = [event.workload.partition("/")[2] for event in events if isinstance(event, gone)]
    # A workload without quota that another one takes the place of is deleted, not finished: it never ran.
    compare([name for name in played.made if name not in played.names()], expect["finished"], "finished")
    assert set(ended) <= set(expect["finished"])
    compare(played.newest().name, expect["survivor"], "survivor")
    kept = played.job.record.name if played.job.admitted else ""
    compare(kept, expect["keptAdmitted"], "kept, admitted")
