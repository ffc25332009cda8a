"""Which admission checks concern a workload (AC1)."""

import msgspec

from sluice.api import kueue
from sluice.core.workload.admission_checks import relevant_checks, sync_states
from tests.conformance.build_status import check_state
from tests.conformance.framework import Json, compare

SUITE = "core.TestReconcileSyncAdmissionChecks"


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    given = case["input"]
    (queue,), (workload,) = given["ClusterQueue"], given["Workload"]
    spec = msgspec.convert(queue["spec"], kueue.ClusterQueueSpec)
    status = workload.get("status") or {}
    flavors = None
    if status.get("admission"):
        flavors = [f for p in status["admission"]["podSetAssignments"] for f in p["flavors"].values()]
    states = [check_state(state) for state in status.get("admissionChecks") or ()]
    synced = sync_states(states, relevant_checks(spec, flavors), None)
    wanted = case["expect"]["wantChecks"] or []
    compare(
        [(s.name, s.state, s.message) for s in synced],
        [(c["name"], c["state"], c["message"]) for c in wanted],
        "admissionChecks",
    )
