"""How long a workload waits when several checks ask for a retry (AC3)."""

from sluice.core.workload.admission_checks import max_retry_at
from tests.conformance.build_status import check_state, micros
from tests.conformance.framework import Json, compare

SUITE = "workload.TestGetMaxRetryTime"


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    (manifest,) = case["input"]["Workload"]
    states = [check_state(s) for s in (manifest.get("status") or {}).get("admissionChecks") or ()]
    compare(max_retry_at(states), micros(case["expect"]["wantRetryTime"]), "retryTime")
