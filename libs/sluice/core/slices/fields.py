"""Where users wrote what a job asks for: refusals name the fields of their own manifest."""

from typing import Final

from sluice.api import batch_v1, jobset, ray, sluice_v1
from sluice.api.labels import PRIORITY_CLASS, QUEUE_NAME
from sluice.api.meta import Manifest, ObjectMeta

_LABEL: Final = f"metadata.labels[{QUEUE_NAME}]"


def named_queue(manifest: Manifest) -> str:
    """Return the queue that a job's manifest names, "" if none."""
    return (isinstance(manifest, sluice_v1.Job) and manifest.spec.queue_name) or _label(manifest, QUEUE_NAME)


def named_class(manifest: Manifest) -> str:
    """Return the priority class that a job's manifest names, "" if none."""
    own = isinstance(manifest, sluice_v1.Job) and manifest.spec.priority_class_name
    return own or _label(manifest, PRIORITY_CLASS)


def _label(manifest: Manifest, name: str) -> str:
    metadata = getattr(manifest, "metadata", None)
    return metadata.labels.get(name, "") if isinstance(metadata, ObjectMeta) else ""


def class_field(manifest: Manifest) -> str:
    """Return the field that names the job's priority class."""
    if isinstance(manifest, sluice_v1.Job) and manifest.spec.priority_class_name:
        return "spec.priorityClassName"
    return f"metadata.labels[{PRIORITY_CLASS}]"


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
