"""One scheduling cycle with variants of which one is admitted."""

from tests.conformance.build_schedule import Run, check_admissions, check_conditions
from tests.conformance.framework import Json

SUITE = "scheduler.TestScheduleConcurrentAdmission"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    """Compare conditions and admissions; a variant that is barred waits aside, not at the head (CA6)."""
    ours = Run(case, header)
    ours.cycle()
    check_conditions(ours, case["expect"]["wantWorkloads"])
    check_admissions(ours.state, case["expect"]["wantAssignments"])
