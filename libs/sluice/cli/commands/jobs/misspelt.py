"""Labels and annotations under Kueue's prefix that are probably misspelt: nobody reads them."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

from sluice.api import labels

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


def misspelt(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each key that means nothing, with the one that it is near to."""
    suffixes = {known.removeprefix(labels.PREFIX): known for known in sorted(_KNOWN)}
    for key in keys:
        if not key.startswith(labels.PREFIX) or key in _KNOWN or key in _OF_KUEUE:
            continue
        near = get_close_matches(key.removeprefix(labels.PREFIX).lower(), list(suffixes), n=1, cutoff=0.8)
        if near:
            yield key, suffixes[near[0]]
