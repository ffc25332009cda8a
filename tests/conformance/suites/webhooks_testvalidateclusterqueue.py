"""Field errors of a new ClusterQueue."""

from sluice.api.kueue import ClusterQueue
from sluice.api.validation.clusterqueue import check_cluster_queue
from tests.conformance.build_api import compare_errors, only
from tests.conformance.framework import Json

SUITE = "webhooks.TestValidateClusterQueue"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, _header: Json) -> None:
    compare_errors(case, check_cluster_queue(only(case, ClusterQueue)))
