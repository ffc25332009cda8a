"""Fields that are accepted, so that manifests apply as they are, and have no effect: each with a warning."""

from collections.abc import Iterator

from sluice.api import kueue
from sluice.api.meta import Manifest

_TOPOLOGY = "jobs are placed without regard to topologies"
_SCOPE = "usage over time is not counted: queues are ordered by priority and time"


def ineffective(manifest: Manifest) -> Iterator[str]:
    """Yield what of an object of configuration has no effect, by the field that says it."""
    match manifest:
        case kueue.Topology():
            yield f"spec.levels has no effect: {_TOPOLOGY}"
        case kueue.ResourceFlavor() if manifest.spec.topology_name is not None:
            yield f"spec.topologyName has no effect: {_TOPOLOGY}"
        case kueue.ClusterQueue() if manifest.spec.admission_scope is not None:
            yield f"spec.admissionScope has no effect: {_SCOPE}"
        case kueue.LocalQueue() if manifest.spec.fair_sharing is not None:
            yield f"spec.fairSharing of a LocalQueue has no effect: {_SCOPE}"
        case _:
            return
