"""The list of check states follows the list of checks (AC1)."""

from sluice.core.workload.admission_checks import sync_states
from tests.conformance.build_status import check_state, micros
from tests.conformance.framework import Json, compare

SUITE = "core.TestSyncCheckStates"


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    given, expect = case["input"], case["expect"]
    states = [check_state(state) for state in given["states"] or ()]
    synced = sync_states(states, given["list"] or (), micros(case["now"]))
    wanted = [check_state(state) for state in expect["wantStates"] or ()]
    if expect["lastTransitionTimeIgnored"]:
        synced, wanted = [s._replace(at=None) for s in synced], [s._replace(at=None) for s in wanted]
    compare(synced, wanted, "states")
    compare(sorted(states) != sync_states(states, given["list"] or (), None), expect["wantChange"], "change")
