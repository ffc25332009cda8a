"""Preemption with fair sharing: victims and reasons."""

from tests.conformance.build_preemption import targets_of
from tests.conformance.framework import Json

SUITE = "preemption.TestFairPreemptions"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    _, _, targets = targets_of(case, header)
    actual = sorted(f"{target.workload.key}:{target.reason}" for target in targets)
    wanted = sorted(case["expect"]["wantPreempted"] or ())
    assert actual == wanted, f"{actual}, expected {wanted}"
