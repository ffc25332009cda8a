"""What can be said of a kind of jobs: rules for its pod sets, and the fields that matter beside them.

Paths are field names with dots between them, from the object's root: `spec.template`, of a list's item with
its number: `spec.groups[0].template`. `.` is the object itself, for pods. A field that is null is absent, as
in Kubernetes.
"""

import re
from collections.abc import Iterator
from typing import Any

from sluice.api.errors import FieldError, invalid, required
from sluice.api.meta import Int32, Manifest

ITSELF = "."
TTL = "ttlSecondsAfterFinished"
"""What the field is called in all kinds that have it: whoever reads messages looks for the word."""

_ITEM = re.compile(r"([^\[\]]+)((?:\[\d+\])*)")


class PodSetRule(Manifest, frozen=True):
    """How one pod set, or one for each item of a list, is found in a manifest.

    How many pods: the product of the fields in `count` (`otherwise` in place of an absent one), at most what
    `at_most` says, less `fewer`, by the product of the fields in `times` (1 in place of an absent one).
    Where there is no template (or no `resources`), there is no pod set.
    """

    name: str = ""
    """Of the pod set; else it stands in the field `name_from`, and is spelled in small letters."""
    name_from: str = ""
    each: str = ""
    """A list: each item makes a pod set, and all other paths begin at the item."""
    template: str = ""
    """The pod template."""
    resources: str = ""
    """In place of a template: `requests` and `limits` of a pod."""
    count: list[str] = []
    otherwise: Int32 = 1
    at_most: str = ""
    fewer: Int32 = 0
    times: list[str] = []
    min_count: str = ""
    """The least pods that the job can do with (partial admission)."""
    when: str = ""
    """The rule holds only where this field is there."""
    unless: str = ""
    """It holds only where this one is not."""


class Mapping(Manifest, frozen=True):
    """What admission must know of a kind."""

    pod_sets: list[PodSetRule] = []
    suspend: list[str] = []
    """Fields that say whether it may run now: these are the system's, no edits of users."""
    ttl: str = ""
    """The field that says for how many seconds it is to be kept when it has finished."""


def find(value: Any, path: str) -> Any:
    """Return what stands at a path, None where there is nothing.

    >>> find({"spec": {"a": {"b": 1}}}, "spec.a.b")
    1
    """
    if path == ITSELF:
        return value
    for step in path.split("."):
        name, _, items = step.partition("[")
        if not isinstance(value, dict):
            return None
        value = value.get(name)
        for item in items.removesuffix("]").split("][") if items else ():
            if not isinstance(value, list) or not item.isdecimal() or int(item) >= len(value):
                return None
            value = value[int(item)]
    return value


def is_path(path: str) -> bool:
    """Tell whether it leads anywhere: names, and numbers of items."""
    return path == ITSELF or all(_ITEM.fullmatch(step) for step in path.split("."))


def without(value: Any, path: str) -> Any:
    """Return a value without what stands at a path; the value itself where that is nothing."""
    name, _, rest = path.partition(".")
    if not isinstance(value, dict) or name not in value:
        return value
    if not rest:
        return {key: item for key, item in value.items() if key != name}
    return {**value, name: without(value[name], rest)}


def check_mapping(field: str, mapping: Mapping) -> Iterator[FieldError]:
    """Yield what is wrong with the description of a kind."""
    if not mapping.pod_sets:
        yield required(f"{field}.podSets", "a kind without pods asks for nothing")
    for i, rule in enumerate(mapping.pod_sets):
        place = f"{field}.podSets[{i}]"
        if bool(rule.name) == bool(rule.name_from):
            yield required(f"{place}.name", "a name, or nameFrom, and not both")
        if bool(rule.template) == bool(rule.resources):
            yield required(f"{place}.template", "a template, or resources, and not both")
        for word, path in _paths(rule):
            if path and not is_path(path):
                yield invalid(f"{place}.{word}", path, "must be names with dots between them")
        for word, least in (("otherwise", rule.otherwise), ("fewer", rule.fewer)):
            if least < 0:
                yield invalid(f"{place}.{word}", least, "must be greater than or equal to 0")
    if mapping.ttl and not mapping.ttl.endswith(TTL):
        yield invalid(f"{field}.ttl", mapping.ttl, f"must be the path of a field named {TTL}")
    for i, path in enumerate(mapping.suspend):
        if not path.startswith("spec.") or not is_path(path):
            yield invalid(f"{field}.suspend[{i}]", path, "must be the path of a field of the spec")


def _paths(rule: PodSetRule) -> Iterator[tuple[str, str]]:
    yield from (
        ("nameFrom", rule.name_from),
        ("each", rule.each),
        ("template", rule.template),
        ("resources", rule.resources),
        ("atMost", rule.at_most),
        ("minCount", rule.min_count),
        ("when", rule.when),
        ("unless", rule.unless),
    )
    yield from ((f"count[{i}]", path) for i, path in enumerate(rule.count))
    yield from ((f"times[{i}]", path) for i, path in enumerate(rule.times))
