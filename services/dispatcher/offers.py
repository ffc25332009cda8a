"""A job's manifest as it is submitted in a worker: renamed, of its present size, with constraints."""

from collections.abc import Mapping
from typing import Any

from sluice.api import labels
from sluice.api.batch_v1 import API_VERSION as BATCH
from sluice.api.sluice_v1 import API_VERSION as OWN
from sluice.events.base import JobKey
from sluice.protocol.cells import ORIGIN, Order

type Raw = dict[str, Any]


class SizeError(ValueError):
    """A size that a manifest of this kind cannot say."""


def queue_of(manifest: Mapping[str, Any]) -> str:
    """Return the local queue that a manifest names."""
    named = manifest.get("metadata", {}).get("labels", {}).get(labels.QUEUE_NAME)
    return str(named or manifest.get("spec", {}).get("queueName", ""))


def is_elastic(manifest: Mapping[str, Any]) -> bool:
    """Does the job ask to change its size while it runs?"""
    notes = (manifest.get("metadata") or {}).get("annotations") or {}
    return notes.get(labels.ELASTIC_JOB) == "true"


def as_offer(manifest: Mapping[str, Any], order: Order, there: JobKey, manager: str) -> Raw:
    """Return a job's manifest as it is submitted in a worker, in the edition that *order* names.

    Raises:
        SizeError: its size has changed, and its kind cannot say so.
    """
    namespace, _, name = there.partition("/")
    metadata = dict(manifest.get("metadata") or {})
    for key in ("uid", "resourceVersion", "generation", "creationTimestamp", "generateName"):
        metadata.pop(key, None)
    notes = dict(metadata.get("annotations") or {})
    if order.rung in ("Fits", "Borrows", "Stands"):
        notes[labels.CANNOT_PREEMPT] = "true"
    if order.rung == "Fits":
        notes[labels.CANNOT_BORROW] = "true"
    metadata |= {
        "name": name,
        "namespace": namespace,
        "annotations": notes,
        "labels": {**(metadata.get("labels") or {}), ORIGIN: manager},
    }
    if order.edition:
        # A copy that comes late is older than what there is.
        metadata["generation"] = order.edition
    return {**sized(manifest, order.pods), "metadata": metadata}


def sized(manifest: Mapping[str, Any], pods: Mapping[str, int]) -> Raw:
    """Return a manifest with so many *pods* in each set, unchanged where it has as many.

    >>> sized({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 3}}, {"main": 5})["spec"]
    {'parallelism': 5}

    Raises:
        SizeError: the kind cannot say so.
    """
    if not pods:
        return dict(manifest)
    spec = dict(manifest.get("spec") or {})
    match manifest.get("apiVersion"), manifest.get("kind"):
        case (version, "Job") if version == BATCH:
            _size_batch(spec, manifest, pods)
        case (version, "Job") if version == OWN:
            _size_own(spec, pods)
        case (_, "RayCluster"):
            spec |= _with_workers(spec, pods)
        case (_, "RayJob") if "rayClusterSpec" in spec:
            spec["rayClusterSpec"] = _with_workers(spec["rayClusterSpec"], pods)
        case (_, "JobSet"):
            spec["replicatedJobs"] = [_with_replicas(part, pods) for part in spec.get("replicatedJobs", ())]
        case _:
            return dict(manifest)
    return {**manifest, "spec": spec}


def _one(value: Any) -> int:
    return 1 if value is None else int(value)


def _least(*values: Any) -> int:
    return min(int(value) for value in values if value is not None)


def _size_batch(spec: Raw, manifest: Mapping[str, Any], pods: Mapping[str, int]) -> None:
    count = pods.get("main")
    if count is None or count == _least(_one(spec.get("parallelism")), spec.get("completions")):
        return
    spec["parallelism"] = count
    notes = (manifest.get("metadata") or {}).get("annotations") or {}
    if labels.JOB_COMPLETIONS_EQUAL_PARALLELISM in notes and "completions" in spec:
        spec["completions"] = count


def _size_own(spec: Raw, pods: Mapping[str, int]) -> None:
    if spec.get("podSets"):
        spec["podSets"] = [_group(dict(g), pods, spec.get("completions")) for g in spec["podSets"]]
        return
    count = pods.get("main")
    word = "parallelism" if spec.get("parallelism") is not None else "replicas"
    if count is not None and count != _least(_one(spec.get(word)), spec.get("completions")):
        spec[word] = count
        if spec.get("minReplicas") is not None:
            spec["minReplicas"] = min(spec["minReplicas"], count)


def _group(group: Raw, pods: Mapping[str, int], completions: Any) -> Raw:
    count = pods.get(group.get("name", "main"))
    if count is not None and count != _least(_one(group.get("replicas")), completions):
        group["replicas"] = count
        if group.get("minReplicas") is not None:
            group["minReplicas"] = min(group["minReplicas"], count)
    return group


def _with_workers(cluster: Mapping[str, Any], pods: Mapping[str, int]) -> Raw:
    return {**cluster, "workerGroupSpecs": [_workers(g, pods) for g in cluster.get("workerGroupSpecs", ())]}


def _workers(group: Mapping[str, Any], pods: Mapping[str, int]) -> Raw:
    name, hosts = str(group.get("groupName", "")), _one(group.get("numOfHosts")) or 1
    now = group.get("replicas") if group.get("replicas") is not None else group.get("minReplicas") or 1
    count = pods.get(name.lower(), int(now or 0) * hosts)
    if count == int(now or 0) * hosts:
        return dict(group)
    if count % hosts:
        raise SizeError(f"the worker group {name} has {hosts} hosts in each replica: {count} pods are none")
    return {**group, "replicas": count // hosts}


def _with_replicas(part: Mapping[str, Any], pods: Mapping[str, int]) -> Raw:
    name, replicas = str(part.get("name", "")), _one(part.get("replicas"))
    template = dict(part.get("template") or {})
    spec = dict(template.get("spec") or {})
    each = _least(_one(spec.get("parallelism")), spec.get("completions"))
    count = pods.get(name, replicas * each)
    if count == replicas * each:
        return dict(part)
    if not replicas or count % replicas:
        raise SizeError(f"{name} has {replicas} replicas: {count} pods cannot be shared out among them")
    return {**part, "template": {**template, "spec": {**spec, "parallelism": count // replicas}}}
