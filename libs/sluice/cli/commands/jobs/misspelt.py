"""Parts of a manifest that are accepted and mean nothing: labels and annotations of Kueue's prefix, and
fields."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from sluice.api import batch_v1, jobset, labels
from sluice.api.core_v1 import PodSpec
from sluice.api.custom import CustomResourceDefinition
from sluice.api.decode import decode_object
from sluice.api.errors import InvalidError
from sluice.api.meta import Manifest, ObjectMeta
from sluice.api.validation import custom, warnings

_KNOWN: Final = {
    value
    for name, value in vars(labels).items()
    if name.isupper()
    and isinstance(value, str)
    and value.startswith(labels.PREFIX)
    and value != labels.PREFIX
}
_OF_KUEUE: Final = {
    labels.PREFIX + word
    for word in (
        "cluster-queue-name",
        "local-queue-name",
        "managed",
        "multikueue-origin",
        "multikueue-origin-uid",
        "node-to-replace",
        "pod-group-fast-admission",
        "pod-group-name",
        "pod-group-pod-index",
        "pod-group-pod-index-label",
        "pod-group-serving",
        "pod-group-total-count",
        "pod-suspending-parent",
        "podset",
        "podset-preferred-topology",
        "podset-required-topology",
        "podset-slice-required-topology",
        "podset-slice-size",
        "podset-unconstrained-topology",
        "retriable-in-group",
        "role-hash",
        "safe-to-forcefully-delete",
        "workload",
    )
}
"""Meant for Kueue alone."""
_TOPOLOGY: Final = "jobs are placed without regard to topologies"
_MADE: Final = "workloads are made from jobs"
_CLASSES: Final = "priorities are those of classes"
_GROUPS: Final = "only pods make groups, those that are submitted together"
NO_EFFECT: Final = {
    f"{labels.PREFIX}{word}": why
    for why, words in (
        (
            _TOPOLOGY,
            (
                "podset-preferred-topology",
                "podset-required-topology",
                "podset-slice-required-topology",
                "podset-slice-size",
                "podset-unconstrained-topology",
            ),
        ),
        (_GROUPS, ("pod-group-name", "pod-group-total-count")),
        (_MADE, ("prebuilt-workload-name",)),
        (_CLASSES, ("priority-boost",)),
    )
    for word in words
}
"""What people would miss, and why they do."""
PRIORITY: Final = f"the label {labels.PRIORITY_CLASS} names the class of the job"


def means_nothing(manifest: Manifest, written: Any) -> Iterator[str]:
    """Yield what of a manifest has no effect, by its field, and why; *written*: as its author spelled it."""
    metadata = getattr(manifest, "metadata", None)
    if isinstance(metadata, ObjectMeta):
        for what, keys in (("labels", metadata.labels), ("annotations", metadata.annotations)):
            for key, meant in misspelt(keys):
                yield f'metadata.{what}[{key}] means nothing. Did you mean "{meant}"?'
    for text in warnings(manifest):
        yield f"{text}."
    if isinstance(manifest, CustomResourceDefinition):
        for word in custom.unchecked(manifest):
            yield f"{word} in its schema is not enforced."
    for path, why in without_effect(written):
        yield f"{path} has no effect: {why}."


def means_nothing_of(obj: Mapping[str, Any]) -> list[str]:
    """Return what has no effect of an object as the cell has it."""
    written = {key: value for key, value in obj.items() if key != "status"}
    try:
        return list(means_nothing(decode_object(written, custom=True), written))
    except InvalidError:
        # Views are no manifests, and a job's spec may be cut off the log.
        return list(means_nothing(Manifest(), written))


def misspelt(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each key that means nothing, with the one that it is near to."""
    suffixes = {known.removeprefix(labels.PREFIX): known for known in sorted(_KNOWN)}
    for key in keys:
        if not key.startswith(labels.PREFIX) or key in _KNOWN or key in _OF_KUEUE:
            continue
        near = get_close_matches(key.removeprefix(labels.PREFIX).lower(), list(suffixes), n=1, cutoff=0.8)
        if near:
            yield key, suffixes[near[0]]


def images_alone(manifest: Manifest) -> Iterator[str]:
    """Yield the path of the first container of each pod that agents cannot run: an image and no command."""
    pods: list[tuple[str, PodSpec]] = []
    match manifest:
        case batch_v1.Job(spec=spec):
            pods = [("spec", spec.template.spec)]
        case jobset.JobSet(spec=spec):
            pods = [
                (f"spec.replicatedJobs[{i}].template.spec", part.template.spec.template.spec)
                for i, part in enumerate(spec.replicated_jobs)
            ]
    for path, pod in pods:
        if pod.containers and pod.containers[0].image and not pod.containers[0].command:
            yield f"{path}.template.spec.containers[0]"


def without_effect(written: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each label and annotation in a manifest that has no effect here, and why.

    Also in the templates of its pods, where requests for a topology stand.
    """
    if isinstance(written, list):
        for i, item in enumerate(written):
            yield from without_effect(item, f"{path}[{i}]")
    elif isinstance(written, dict):
        for key, item in written.items():
            if key in NO_EFFECT and path.endswith((".labels", ".annotations")):
                yield f"{path}[{key}]", NO_EFFECT[key]
            elif key == "priorityClassName" and path.lower().endswith("template.spec"):
                yield f"{path}.{key}", PRIORITY
            else:
                yield from without_effect(item, f"{path}.{key}" if path else str(key))
