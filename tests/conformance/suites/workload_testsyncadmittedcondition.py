"""The Admitted condition follows quota and checks, and the time spent admitted is kept (AC1, SC7)."""

from sluice.core.workload.admission_checks import why_not_admitted
from tests.conformance.build_status import SECOND, check_state, conditions_of, micros
from tests.conformance.framework import Json, compare

SUITE = "workload.TestSyncAdmittedCondition"

LEFT_OUT = {
    "pending delayed topology request; already Admitted=false": "out of scope: topology-aware scheduling",
    "pending delayed topology request; flip from Admitted=true": "out of scope: topology-aware scheduling",
}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    (manifest,) = case["input"]["Workload"]
    status, conditions = manifest.get("status") or {}, conditions_of(manifest)
    states = [check_state(s) for s in status.get("admissionChecks") or ()]
    has_quota = conditions.get("QuotaReserved", {}).get("status") == "True"
    missing = why_not_admitted(states, has_quota=has_quota)
    was = conditions.get("Admitted", {}).get("status") == "True"
    wanted = {c["type"]: c for c in case["expect"]["wantConditions"] or ()}.get("Admitted")
    if wanted is None:
        # The reference says nothing of a workload that never had quota; we say NoReservation.
        assert missing is not None
        return
    compare("True" if missing is None else "False", wanted["status"], "Admitted.status")
    compare("Admitted" if missing is None else missing[0], wanted.get("reason"), "Admitted.reason")
    compare(was != (missing is None) or "Admitted" not in conditions, case["expect"]["wantChange"], "change")
    past_s = status.get("accumulatedPastExecutionTimeSeconds") or 0
    since = micros(conditions.get("Admitted", {}).get("lastTransitionTime"))
    if was and missing is not None and since is not None:
        past_s += ((micros(case["now"]) or 0) - since) // SECOND
    if case["expect"]["wantAdmittedTime"]:
        compare(past_s, case["expect"]["wantAdmittedTime"], "accumulatedPastExecutionTimeSeconds")
