"""The order in which candidates are considered."""

from sluice.api.kueue import ConfigurationSpec
from tests.conformance.build_preemption import micros, workload_of
from tests.conformance.framework import Json, gates
from tests.support.candidates import local_queue, sort_candidates

SUITE = "preemption.TestCandidatesOrdering"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    given = case["input"]
    config = ConfigurationSpec(feature_gates=gates(case, header))
    candidates, usage = [], {}
    for candidate in given["candidates"]:
        workload = workload_of(candidate["workload"], config)
        workload.cluster_queue = candidate["clusterQueue"]
        reserved = candidate["quotaReservedLastTransitionTimeNano"]
        workload.reserved_at = micros(reserved or case["now"])
        if case["options"]["admissionFairSharing"] and candidate["localQueueFSUsage"] is not None:
            usage[local_queue(workload)] = int(candidate["localQueueFSUsage"] * 1_000_000)
        candidates.append(workload)
    actual = [w.record.name for w in sort_candidates(candidates, given["preemptorClusterQueue"], usage)]
    wanted = case["expect"]["wantOrder"]
    assert actual == wanted, f"{actual}, expected {wanted}"
