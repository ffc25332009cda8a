"""Field errors and warnings of a new Workload."""

from sluice.api.kueue import Workload
from sluice.api.validation.workload import check_workload, warnings
from tests.conformance.build_api import compare_errors, only
from tests.conformance.framework import Json, compare, gates

SUITE = "webhooks.TestValidateWorkload"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    workload = only(case, Workload)
    compare_errors(case, check_workload(workload, gates(case, header)))
    compare(len(warnings(workload)), len(case["expect"].get("wantWarnings") or []), "warnings")
