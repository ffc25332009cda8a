"""Groups of pods: Kueue's pods name their group by label, here a group is one job of kind PodGroup."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sluice.api import labels
from sluice.api.meta import Manifest, ObjectMeta

from .job import MappedJob
from .table import POD, POD_GROUP

LONGEST = 10
"""Digits of a number of pods."""
_OF_A_GROUP = (
    labels.POD_GROUP_NAME,
    labels.POD_GROUP_TOTAL_COUNT,
    labels.POD_GROUP_FAST_ADMISSION,
)


def with_groups(manifests: Sequence[Manifest]) -> list[tuple[int, Manifest]]:
    """Return manifests with one job in place of all pods of a group, where its first pod stood.

    Each comes with its place in *manifests*.
    """
    groups: dict[tuple[str, str], list[MappedJob]] = {}
    for manifest in manifests:
        if (key := _group_of(manifest)) is not None and isinstance(manifest, MappedJob):
            groups.setdefault(key, []).append(manifest)
    found: list[tuple[int, Manifest]] = []
    for place, manifest in enumerate(manifests):
        key = _group_of(manifest)
        if key is None:
            found.append((place, manifest))
        elif key in groups:
            found.append((place, _group(key, groups.pop(key))))
    return found


def _group_of(manifest: Manifest) -> tuple[str, str] | None:
    if not isinstance(manifest, MappedJob) or (manifest.api_version, manifest.kind) != POD:
        return None
    name = manifest.metadata.labels.get(labels.POD_GROUP_NAME)
    return (manifest.metadata.namespace, name) if name else None


def _group(key: tuple[str, str], pods: Sequence[MappedJob]) -> MappedJob:
    """Return the job; its labels and annotations are those of the first pod that has any."""
    namespace, name = key
    marks: dict[str, str] = {}
    notes: dict[str, str] = {}
    for pod in reversed(pods):
        marks.update(pod.metadata.labels)
        notes.update(pod.metadata.annotations)
    spec: dict[str, Any] = {"pods": [_pod(pod) for pod in pods]}
    total = notes.get(labels.POD_GROUP_TOTAL_COUNT)
    if total is not None:
        spec["totalCount"] = int(total) if total.isdecimal() and len(total) < LONGEST else total
    if notes.get(labels.POD_GROUP_FAST_ADMISSION) == "true":
        spec["fastAdmission"] = True
    metadata = ObjectMeta(name=name, namespace=namespace, labels=_less(marks), annotations=_less(notes))
    api_version, kind = POD_GROUP
    return MappedJob(api_version=api_version, kind=kind, metadata=metadata, spec=spec)


def _pod(pod: MappedJob) -> dict[str, Any]:
    metadata: dict[str, Any] = msgspec.to_builtins(
        msgspec.structs.replace(
            pod.metadata,
            namespace="",
            labels=_less(pod.metadata.labels),
            annotations=_less(pod.metadata.annotations),
        )
    )
    return {"metadata": metadata, "spec": pod.spec}


def _less(marks: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in marks.items() if key not in _OF_A_GROUP}
