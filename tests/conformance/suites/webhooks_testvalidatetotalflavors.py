"""Size limits of a ClusterQueue's resource groups."""

from sluice.api.kueue import ClusterQueue
from sluice.api.validation.clusterqueue import check_cluster_queue
from tests.conformance.build_api import compare_any_error, only
from tests.conformance.framework import Json

SUITE = "webhooks.TestValidateTotalFlavors"
LEFT_OUT: dict[str, str] = {}


def run(case: Json, _header: Json) -> None:
    compare_any_error(case, check_cluster_queue(only(case, ClusterQueue)))
