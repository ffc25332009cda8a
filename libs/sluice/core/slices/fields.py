"""Fields of users' manifests that state a job's wishes: refusals name them."""

from typing import Any, Final

from msgspec.structs import replace

from sluice.api import batch_v1, jobset, ray, sluice_v1
from sluice.api.labels import PRIORITY_CLASS, QUEUE_NAME
from sluice.api.mapped import MappedJob, find, read, rules_of, without
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
        case MappedJob():
            found, _ = read(manifest)
            return found[0].field if len(found) == 1 else "spec"
        case _:
            return "spec"


def suspended(manifest: Manifest) -> bool | None:
    """Return what the manifest says of whether the job may run now, None for nothing."""
    if isinstance(manifest, MappedJob):
        said = [find({"spec": manifest.spec}, path) for path in rules_of(manifest).suspend]
        return next((value for value in said if isinstance(value, bool)), None)
    found: bool | None = manifest.spec.suspend  # type: ignore[attr-defined]
    return found


def spec_to_edit(manifest: Manifest) -> Any:
    """Return the spec without what only the system says: whether the job may run now."""
    spec: Any = manifest.spec  # type: ignore[attr-defined]
    if isinstance(manifest, MappedJob):
        whole: Any = {"spec": spec}
        for path in rules_of(manifest).suspend:
            whole = without(whole, path)
        return whole["spec"]
    return spec if spec.suspend is None else replace(spec, suspend=None)


def ttl_of(manifest: Manifest) -> int | None:
    """Return for how many seconds the job is to be kept when it has finished."""
    if isinstance(manifest, MappedJob):
        path = rules_of(manifest).ttl
        found = find({"spec": manifest.spec}, path) if path else None
        return found if isinstance(found, int) and not isinstance(found, bool) else None
    return getattr(manifest.spec, "ttl_seconds_after_finished", None)  # type: ignore[attr-defined]
