"""The newest slice that has quota and is to keep it (WS4)."""

from sluice.core.views.present.slices import live
from sluice.core.views.records import JobView, WorkloadView
from tests.conformance.build_slices import view_of
from tests.conformance.framework import Json, compare

SUITE = "workloadslicing.TestFindLatestActiveWorkload"
LEFT_OUT: dict[str, str] = {}


def active(job: JobView) -> WorkloadView | None:
    """Return the newest slice that holds quota and is not being evicted."""
    found = [workload for workload in live(job) if workload.holds_quota and not workload.evicted]
    return found[-1] if found else None


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    found = active(view_of(case["input"].get("Workload") or []))
    compare("" if found is None else found.record.name, case["expect"]["want"], "active slice")
