"""Rules of a kind of jobs: its pod sets, and the fields that matter beside them.

Paths are field names with dots between them, from the object's root: `spec.template`, of a list's item with
its number: `spec.groups[0].template`. `.` is the object itself, for pods. A field that is null is absent, as
in Kubernetes.
"""

import re
from collections.abc import Iterator
from typing import Any

from sluice.api.errors import FieldError, forbidden, invalid, required, too_many
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


class StatusRule(Manifest, frozen=True):
    """One thing that an object may say: a field is there, or has one of some values; or a condition holds."""

    path: str = ""
    values: list[str] = []
    """As text: numbers and truth values as JSON has them. None: whatever it is."""
    condition: str = ""
    """In place of a path: the type of a condition in `status.conditions` that is "True"."""


class StatusRules(Manifest, frozen=True):
    """How objects of a kind say how far they have come, each if any of its rules holds.

    For executors that watch objects: what admission learns of a job, it is told by executors.
    """

    ready: list[StatusRule] = []
    succeeded: list[StatusRule] = []
    failed: list[StatusRule] = []
    message: str = ""
    """The field that says why."""


class Mapping(Manifest, frozen=True):
    """What admission, and whoever runs its jobs, must know of a kind."""

    pod_sets: list[PodSetRule] = []
    suspend: list[str] = []
    """Fields that say whether it may run now: these are the system's, no edits of users."""
    ttl: str = ""
    """The field that says for how many seconds it is to be kept when it has finished."""
    status: StatusRules = StatusRules()


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
    return path == ITSELF or (len(path) <= MAX_PATH and all(map(_ITEM.fullmatch, path.split("."))))


def without(value: Any, path: str) -> Any:
    """Return a value without what stands at a path; the value itself where that is nothing."""
    name, _, rest = path.partition(".")
    if not isinstance(value, dict) or name not in value:
        return value
    if not rest:
        return {key: item for key, item in value.items() if key != name}
    return {**value, name: without(value[name], rest)}


def put(value: dict[str, Any], path: str, new: Any) -> dict[str, Any]:
    """Return a manifest with something else at a path that leads through no list; what is missing is made.

    >>> put({"spec": {"paused": True}}, "spec.paused", False)
    {'spec': {'paused': False}}
    """
    name, _, rest = path.partition(".")
    inner = value.get(name)
    return {**value, name: put(inner if isinstance(inner, dict) else {}, rest, new) if rest else new}


MAX_RULES = 32
"""Of each list of a mapping: more than a job may have pod sets."""
MAX_PATH = 200
"""Characters of a path."""


def check_mapping(field: str, mapping: Mapping) -> Iterator[FieldError]:
    """Yield what is wrong with the description of a kind."""
    if not mapping.pod_sets:
        yield required(f"{field}.podSets", "a kind without pods asks for nothing")
    for name, rules in (("podSets", mapping.pod_sets), ("suspend", mapping.suspend)):
        if len(rules) > MAX_RULES:
            yield too_many(f"{field}.{name}", len(rules), MAX_RULES)
    for i, rule in enumerate(mapping.pod_sets[:MAX_RULES]):
        yield from _check_rule(f"{field}.podSets[{i}]", rule)
    if mapping.ttl and not (_of_spec(mapping.ttl) and mapping.ttl.rpartition(".")[2] == TTL):
        yield invalid(f"{field}.ttl", mapping.ttl, f"must be the path of a field of the spec named {TTL}")
    for i, path in enumerate(mapping.suspend[:MAX_RULES]):
        if not _of_spec(path):
            yield invalid(f"{field}.suspend[{i}]", path, "must be the path of a field of the spec")
    yield from _check_status(f"{field}.status", mapping.status)


def _of_spec(path: str) -> bool:
    """Tell whether it leads to a field of the spec through no list."""
    return path.startswith("spec.") and "[" not in path and is_path(path)


def _check_rule(place: str, rule: PodSetRule) -> Iterator[FieldError]:
    if bool(rule.name) == bool(rule.name_from):
        yield required(f"{place}.name", "a name, or nameFrom, and not both")
    elif rule.each and rule.name:
        yield forbidden(f"{place}.name", "each item of a list needs a name of its own: say nameFrom")
    if bool(rule.template) == bool(rule.resources):
        yield required(f"{place}.template", "a template, or resources, and not both")
    for name, paths in (("count", rule.count), ("times", rule.times)):
        if len(paths) > MAX_RULES:
            yield too_many(f"{place}.{name}", len(paths), MAX_RULES)
    for word, path in _paths(rule):
        if path and not is_path(path):
            yield invalid(f"{place}.{word}", path, "must be names with dots between them")
        elif path and not _begins_well(word, path, rule):
            yield invalid(f"{place}.{word}", path, 'must begin with "spec." or "metadata."')
    for word, least in (("otherwise", rule.otherwise), ("fewer", rule.fewer)):
        if least < 0:
            yield invalid(f"{place}.{word}", least, "must be greater than or equal to 0")


def _begins_well(word: str, path: str, rule: PodSetRule) -> bool:
    """Tell whether anything can be found there: paths of an item are its own, `when` and `unless` never."""
    if rule.each and word not in ("each", "when", "unless"):
        return True
    return path == ITSELF or path.startswith(("spec.", "metadata."))


def _check_status(field: str, status: StatusRules) -> Iterator[FieldError]:
    for name, rules in (("ready", status.ready), ("succeeded", status.succeeded), ("failed", status.failed)):
        if len(rules) > MAX_RULES:
            yield too_many(f"{field}.{name}", len(rules), MAX_RULES)
        for i, rule in enumerate(rules[:MAX_RULES]):
            place = f"{field}.{name}[{i}]"
            if bool(rule.path) == bool(rule.condition):
                yield required(f"{place}.path", "a path, or a condition, and not both")
            elif rule.path and not is_path(rule.path):
                yield invalid(f"{place}.path", rule.path, "must be names with dots between them")
            if rule.condition and rule.values:
                yield forbidden(f"{place}.values", 'a condition holds when it is "True"')
    if status.message and not is_path(status.message):
        yield invalid(f"{field}.message", status.message, "must be names with dots between them")


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
    yield from ((f"count[{i}]", path) for i, path in enumerate(rule.count[:MAX_RULES]))
    yield from ((f"times[{i}]", path) for i, path in enumerate(rule.times[:MAX_RULES]))
