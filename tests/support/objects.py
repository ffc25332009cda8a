"""Manifests as `sluice apply` and `sluice submit` read them, and the events that they become."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sluice.api.decode import decode_object
from sluice.api.defaults import default
from sluice.events.config import ObjectApplied

API_VERSION = "kueue.x-k8s.io/v1beta2"
OWN = "sluice.dev/v1alpha1"
QUEUE = "kueue.x-k8s.io/queue-name"
CLASS = "kueue.x-k8s.io/priority-class"


def kueue_object(
    kind: str, name: str, spec: Mapping[str, Any] | None = None, *, namespace: str = ""
) -> dict[str, Any]:
    """Return an object of Kueue's API; a Configuration, which is our own, or a Namespace, too."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    version = {"Configuration": OWN, "Namespace": "v1"}.get(kind, API_VERSION)
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec or {}}


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def configuration(**spec: Any) -> dict[str, Any]:
    return kueue_object("Configuration", "default", spec)


def local_queue(name: str = "main", target: str = "main", namespace: str = "default") -> dict[str, Any]:
    return kueue_object("LocalQueue", name, {"clusterQueue": target}, namespace=namespace)


def resource_group(flavors: Mapping[str, int], resource: str = "cpu", **limits: int | None) -> dict[str, Any]:
    """Return the quotas of one resource, flavor -> amount, with the same limits for all that are not None."""
    more = {name: limit for name, limit in limits.items() if limit is not None}
    quotas = [
        {"name": flavor, "resources": [{"name": resource, "nominalQuota": amount, **more}]}
        for flavor, amount in flavors.items()
    ]
    return {"coveredResources": [resource], "flavors": quotas}


def job_manifest(
    name: str = "a",
    *,
    namespace: str = "default",
    queue: str | None = "main",
    parallelism: int = 1,
    cpu: int = 1,
    command: Sequence[str] = ("true",),
    priority_class: str = "",
    **spec: Any,
) -> dict[str, Any]:
    """Return a batch/v1 Job."""
    labels = {
        label: value
        for label, value in ((QUEUE, queue), (CLASS, priority_class or None))
        if value is not None
    }
    requests = {"requests": {"cpu": cpu}}
    container = {"name": "main", "image": "busybox", "command": list(command), "resources": requests}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "parallelism": parallelism,
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            **spec,
        },
    }


def defaulted(manifest: Mapping[str, Any]) -> Any:
    """Return the object as the api service has it in the log."""
    return default(decode_object(dict(manifest)))


def applied(manifest: Any, kind: str = "") -> ObjectApplied:
    """Return what the log says of an object, a manifest as it is or one that was decoded."""
    plain = manifest if isinstance(manifest, Mapping) else msgspec.to_builtins(manifest)
    # What has its default, as names of a Configuration may have, is left out.
    metadata = plain.get("metadata", {})
    return ObjectApplied(
        cause=0,
        kind=kind or plain["kind"],
        name=metadata.get("name", ""),
        namespace=metadata.get("namespace", ""),
        object=msgspec.Raw(msgspec.json.encode(manifest)),
    )
