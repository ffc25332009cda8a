"""Field errors of a changed ClusterQueue."""

from sluice.api.kueue import ClusterQueue
from sluice.api.validation.clusterqueue import check_cluster_queue_update
from tests.conformance.build_api import compare_errors, manifest
from tests.conformance.framework import Json, gates

SUITE = "webhooks.TestValidateClusterQueueUpdate"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, header: Json) -> None:
    new, old = (manifest(case["input"][key], ClusterQueue) for key in ("new", "old"))
    compare_errors(case, check_cluster_queue_update(new, old, gates(case, header)))
