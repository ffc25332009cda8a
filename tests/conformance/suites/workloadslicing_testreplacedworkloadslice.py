"""Which slice a workload takes the place of, as the scheduler sees it (WS3, WS4)."""

from sluice.core.quota.tree import Tree
from sluice.core.world.model import World
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import must_wait, replaced_slice
from tests.conformance.build_slices import assignment_of, record_of
from tests.conformance.framework import Json, compare

SUITE = "workloadslicing.TestReplacedWorkloadSlice"
LEFT_OUT = {"EdgeCase_WorkloadIsNil": "white-box: a null pointer"}


def run(case: Json, header: Json) -> None:  # noqa: ARG001
    given, expect = case["input"], case["expect"]
    world = World(Tree())
    for queue, workloads in (given.get("snapshotClusterQueueWorkloads") or {}).items():
        for manifest in workloads.values():
            record = record_of(manifest)
            old = Workload(record, record.key, record.uid, 0, cluster_queue=queue)
            old.assignment = assignment_of(record)
            world.workloads[record.key] = old
    if given.get("workload") is None:
        assert expect["replacedWorkload"] is None
        return
    record = record_of(given["workload"])
    workload = Workload(record, record.key, record.uid, 0)
    found = replaced_slice(world, workload)
    if found is not None and must_wait(world, workload, given.get("workloadClusterQueue") or ""):
        found = None
    wanted = expect["replacedWorkload"]
    compare(
        None if found is None else found.record.name,
        None if wanted is None else wanted["metadata"]["name"],
        "replaced",
    )
