"""Field errors of a changed Workload."""

from sluice.api.kueue import Workload
from sluice.api.validation.workload_update import check_workload_update
from tests.conformance.build_api import compare_errors, manifest
from tests.conformance.framework import Json, gates

SUITE = "webhooks.TestValidateWorkloadUpdate"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    new, old = (manifest(case["input"][key], Workload) for key in ("new", "old"))
    compare_errors(case, check_workload_update(new, old, gates(case, header)))
