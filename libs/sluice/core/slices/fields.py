"""Where users wrote what a job asks for: refusals name the fields of their own manifest."""

from typing import Final

from sluice.api import batch_v1, jobset, ray, sluice_v1
from sluice.api.labels import QUEUE_NAME
from sluice.api.meta import Manifest, ObjectMeta

__all__ = ["pods_field", "queue_field"]

_LABEL: Final = f"metadata.labels[{QUEUE_NAME}]"


def queue_field(manifest: Manifest) -> str:
    """Return the field that names the job's queue, or is to: our own kind has one beside the label."""
    if not isinstance(manifest, sluice_v1.Job):
        return _LABEL
    metadata = manifest.metadata
    labeled = isinstance(metadata, ObjectMeta) and QUEUE_NAME in metadata.labels
    return _LABEL if labeled and not manifest.spec.queue_name else "spec.queueName"


def pods_field(manifest: Manifest) -> str:
    """Return the field that says what the job's pods are."""
    match manifest:
        case batch_v1.Job():
            return "spec.template"
        case jobset.JobSet():
            return "spec.replicatedJobs"
        case ray.RayJob():
            return "spec.rayClusterSpec"
        case sluice_v1.Job(spec=spec) if spec.pod_sets:
            return "spec.podSets"
        case _:
            return "spec"
