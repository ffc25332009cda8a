"""Jobs whole: as they were submitted, read from the log, with the counts that they have now."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sluice.api.decode import decode_object
from sluice.api.errors import UNREADABLE
from sluice.core.slices.job_request import job_request
from sluice.core.workload import charges
from sluice.events.codec import decode_message
from sluice.log.nats import jetstream_api
from sluice.log.nats.jetstream import JetStreamLog
from sluice.protocol.query import Object
from sluice.readmodel.world import World


async def with_spec(world: World, log: JetStreamLog, obj: Object) -> Object:
    """Return a job with the spec of its manifest; as it is when that cannot be read any more."""
    metadata = obj["metadata"]
    submitted = world.jobs.get(f"{metadata['namespace']}/{metadata['name']}")
    if submitted is None:
        return obj
    stored = await jetstream_api.message(await log.connection(), log.cell.stream, seq=submitted.shown.seq)
    if stored is None:
        return obj  # the log was cut since
    message = decode_message(stored.payload)
    if isinstance(message, tuple):
        return obj
    try:
        manifest = msgspec.json.decode(message.data)
    except UNREADABLE:
        return obj
    if not isinstance(manifest, dict) or not isinstance(manifest.get("spec"), dict):
        return obj
    counts = {pods["name"]: pods["count"] for pods in obj["status"].get("podSets", ())}
    # In the order that people know: the spec before the status.
    head = {field: value for field, value in obj.items() if field != "status"}
    return {**head, "spec": resized(manifest, counts), "status": obj["status"]}


def resized(manifest: Mapping[str, Any], counts: Mapping[str, int]) -> Any:
    """Return the manifest's spec with the pod counts that the job was scaled to since.

    *counts*: pod set -> pods. What cannot be read, or cannot be said in this kind, stays as it was.
    """
    spec = manifest["spec"]
    try:
        request = job_request(decode_object(dict(manifest)))
    except (TypeError, ValueError):
        return spec
    before = charges.counts(request.pod_sets)
    new = {name: count for name, count in counts.items() if before.get(name, count) != count}
    if not new:
        return spec
    match manifest.get("apiVersion"):
        case "batch/v1":
            return {**spec, "parallelism": new["main"]}
        case "sluice.dev/v1alpha1" if not spec.get("podSets"):
            return {**{k: v for k, v in spec.items() if k != "parallelism"}, "replicas": new["main"]}
        case "sluice.dev/v1alpha1":
            return {**spec, "podSets": _replicas(spec["podSets"], "name", new)}
    if manifest.get("kind") == "RayCluster":
        return {**spec, "workerGroupSpecs": _replicas(spec.get("workerGroupSpecs", ()), "groupName", new)}
    return spec


def _replicas(groups: Sequence[Any], name: str, counts: Mapping[str, int]) -> list[Any]:
    return [
        {**group, "replicas": counts[key] // (group.get("numOfHosts") or 1)}
        if (key := str(group.get(name, "main")).lower()) in counts
        else group
        for group in groups
    ]
