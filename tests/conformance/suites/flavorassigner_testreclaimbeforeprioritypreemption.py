"""Taking lent quota back is better than preempting by priority (SC4, SC5)."""

from tests.conformance.build_flavors import MODES, assignment_of, attempts_json
from tests.conformance.framework import Json, compare

from .flavorassigner_testassignflavors import compare_attempts

SUITE = "flavorassigner.TestReclaimBeforePriorityPreemption"


def run(case: Json, header: Json) -> None:
    assignment = assignment_of(case, header)
    expect, observed = case["expect"], case["observed"]
    compare(MODES[assignment.mode], expect["wantRepMode"], "wantRepMode")
    flavors = {res: flavor.name for ps in assignment.pod_sets for res, flavor in ps.flavors.items()}
    compare(flavors, expect["wantFlavors"] or {}, "wantFlavors")
    compare(assignment.message, observed["message"], "message")
    compare(assignment.borrowing, observed["assignment"]["borrowing"], "borrowing")
    compare_attempts(attempts_json(assignment), observed["assignment"]["podSets"])
