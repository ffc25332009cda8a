"""The live slices of a job, oldest first (WS4)."""

from sluice.core.views.present.slices import live
from tests.conformance.build_slices import names, view_of
from tests.conformance.framework import Json, compare

SUITE = "workloadslicing.TestFindNotFinishedWorkloads"
LEFT_OUT = {"ListFailure": "white-box: a failing API client; the view reads no API"}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    owned = [w for w in case["input"].get("Workload") or () if _owned(w, case["input"]["job"])]
    wanted = [w["metadata"]["name"] for w in case["expect"]["want"]]
    compare(names(live(view_of(owned))), wanted, "live slices")


def _owned(workload: Json, job: Json) -> bool:
    """Ours are found by their job; the reference looks at all workloads and at their owners."""
    uid = job["metadata"].get("uid")
    return any(owner.get("uid") == uid for owner in workload["metadata"].get("ownerReferences") or ())
