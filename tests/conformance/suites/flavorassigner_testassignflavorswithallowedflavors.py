"""A workload that may use some flavors only (CA4)."""

from tests.conformance.build_flavors import MODES, assignment_of
from tests.conformance.framework import Json, compare

SUITE = "flavorassigner.TestAssignFlavorsWithAllowedFlavors"


def run(case: Json, header: Json) -> None:
    assignment = assignment_of(case, header)
    expect, observed = case["expect"], case["observed"]
    compare(MODES[assignment.mode], expect["wantRepMode"], "wantRepMode")
    if expect["wantRepMode"] == "Fit":
        names = {flavor.name for ps in assignment.pod_sets for flavor in ps.flavors.values()}
        compare(sorted(names), [expect["wantFlavor"]], "wantFlavor")
    compare(assignment.message, observed["message"], "message")
    compare(assignment.no_fit_reason, observed["assignment"]["noFitReason"], "noFitReason")
