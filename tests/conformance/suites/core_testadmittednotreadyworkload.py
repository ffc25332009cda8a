"""By when the pods of an admitted workload must be ready (SC7)."""

from sluice.core.lifecycle.transitions import pods_ready_deadline
from sluice.core.quota.tree import Tree
from sluice.core.world.model import World
from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey
from sluice.events.slices import WorkloadRecord
from tests.conformance.build_status import SECOND, conditions_of, configuration, micros, seconds
from tests.conformance.framework import Json, compare

SUITE = "core.TestAdmittedNotReadyWorkload"


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    (manifest,) = case["input"]["Workload"]
    world = World(Tree(), config=configuration(case["options"]))
    record = WorkloadRecord(namespace="ns", name="w", uid="w", queue_name="", created_at=0, pod_sets=())
    workload = Workload(record, WorkloadKey("ns/w"), "w", 0)
    conditions = conditions_of(manifest)
    admitted, ready = conditions.get("Admitted", {}), conditions.get("PodsReady", {})
    if admitted.get("status") == "True":
        workload.admitted_at = micros(admitted["lastTransitionTime"])
    if ready.get("status") == "True":
        workload.pods_ready_at = micros(ready["lastTransitionTime"])
    elif ready.get("reason") == "WaitForRecovery":
        workload.pods_lost_at = micros(ready["lastTransitionTime"])
    deadline, waits_for = pods_ready_deadline(world, workload)
    now = (micros(case["now"]) or 0) // SECOND * SECOND
    recheck_s = 0 if deadline is None else max(0, deadline - now) // SECOND
    compare(waits_for, case["expect"]["wantUnderlyingCause"], "underlyingCause")
    compare(recheck_s, seconds(case["expect"]["wantRecheckAfter"]), "recheckAfter")
