"""Flavor assignment in full: modes, flavors, reasons, attempts, usage, message (SC4, G6)."""

from typing import Any

from tests.conformance.build_flavors import MODES, as_json, assignment_of, attempts_json, wanted
from tests.conformance.framework import Json, compare

SUITE = "flavorassigner.TestAssignFlavors"

LEFT_OUT = {
    "multiple TAS flavors assigned to different resources in the same PodSet leads to NoFit": (
        "out of scope: topology-aware scheduling"
    ),
}


def run(case: Json, header: Json) -> None:
    assignment = assignment_of(case, header)
    expect, observed = case["expect"], case["observed"]
    want = expect["wantAssignment"]
    compare(MODES[assignment.mode], expect["wantRepMode"], "wantRepMode")
    compare(as_json(assignment), wanted(want))
    compare(assignment.message, observed["message"], "message")
    if not expect["noFitReasonIgnored"]:
        compare(assignment.no_fit_reason, want["noFitReason"], "noFitReason")
    compare_attempts(attempts_json(assignment), observed["assignment"]["podSets"])


def compare_attempts(actual: list[Json], pod_sets: list[Json]) -> None:
    """Compare with the attempts of the recorded run, where its order of resources did not matter.

    The reference implementation stops at the first resource that fails, in no fixed order; ours is by name.
    """
    for i, (attempts, ps) in enumerate(zip(actual, pod_sets, strict=True)):
        recorded = {want["flavor"]: want for want in ps["flavorAssignmentAttempts"] or ()}
        failed = not ps["flavors"]
        for flavor in sorted(
            recorded.keys() & attempts.keys() if failed else recorded.keys() | attempts.keys()
        ):
            want = recorded.get(flavor)
            expected: Any = "<absent>"
            if want:
                expected = {key: value for key, value in want.items() if key != "flavor"}
                expected["reasons"] = sorted(want["reasons"] or ())
            compare(attempts.get(flavor, "<absent>"), expected, f"podSets[{i}].attempts.{flavor}")
