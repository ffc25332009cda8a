"""Changes of a what-if: settings, manifests, things left out."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from sluice.api.decode import DecodeError, decode_object
from sluice.api.defaults import default
from sluice.api.errors import UNREADABLE, InvalidError, aggregate
from sluice.api.scheme import configuration_kinds
from sluice.api.spelling import as_written
from sluice.api.validation import validate
from sluice.api.validation.everything import all_errors
from sluice.core.config.objects import NAMESPACED
from sluice.events.base import Event, Micros
from sluice.events.codec import decode_message
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.protocol.subjects import job_of

from .inputs import Input, Inputs, applied, job_names

__all__ = ["ChangeError", "Changes", "parse_setting"]


class ChangeError(ValueError):
    """A change that makes no sense; says what there is instead."""

    def __init__(self, detail: str, known: Sequence[str] = (), word: str = "") -> None:
        super().__init__(detail)
        self.known, self.word = known, word


@dataclass
class Changes:
    """`settings`: `ClusterQueue/a.spec.cohortName` -> value. `drops`: `job/PATTERN` or `KIND/NAME`."""

    settings: list[tuple[str, Any]] = field(default_factory=list)
    manifests: list[dict[str, Any]] = field(default_factory=list)
    drops: list[str] = field(default_factory=list)
    since: Micros = 0
    """From when on they hold; 0: from the beginning."""

    def __bool__(self) -> bool:
        return bool(self.settings or self.manifests or self.drops)


def parse_setting(text: str) -> tuple[str, Any]:
    """Return `KIND/NAME.path=value`, its value read as JSON where it is JSON.

    Raises:
        ChangeError: it has another shape.
    """
    path, equals, value = text.partition("=")
    kind, slash, rest = path.partition("/")
    if not equals or not slash or not kind or (".spec" not in rest and not rest.endswith(".value")):
        raise ChangeError(f"{text!r}: want KIND/NAME.spec.field=VALUE, like ClusterQueue/a.spec.cohortName=b")
    try:
        return path, msgspec.json.decode(value)
    except UNREADABLE:
        return path, value


def apply_changes(inputs: Inputs, changes: Changes) -> Inputs:
    """Return the inputs as they would have been.

    Raises:
        ChangeError: an object or job that is not there, a field that does not exist, or a value that is
            refused as `sluice apply` would refuse it.
    """
    items = list(inputs.items)
    for drop in changes.drops:
        items = _dropped(items, drop, changes.since)
    for path, value in changes.settings:
        items = _set(items, path, value, changes.since)
    if changes.manifests:
        begin = changes.since or (items[0].at if items else 0)
        events = tuple(_event(manifest, str(manifest.get("kind", "?"))) for manifest in changes.manifests)
        kept = [_without(item, events, changes.since) for item in items]
        items = [Input(begin, "config", b"", events), *[item for item in kept if item is not None]]
        items.sort(key=lambda item: item.at)
    return replace(inputs, items=items)


def _event(manifest: dict[str, Any], what: str) -> ObjectApplied:
    try:
        desired = default(decode_object(manifest))
    except DecodeError as error:
        raise ChangeError(f"{what}: {error.what} is invalid: {aggregate(all_errors(error))}") from error
    except InvalidError as error:
        raise ChangeError(f"{what}: {error}") from error
    errors = as_written(validate(desired, {}), manifest)
    if errors:
        raise ChangeError(f"{what}: {'; '.join(map(str, errors))}")
    metadata = desired.metadata  # type: ignore[attr-defined]
    kind = type(desired).__name__
    if all(type(desired) is not each.type for each in configuration_kinds()):
        raise ChangeError(f"{what} {metadata.name}: jobs are submitted, not applied; here the log has them")
    return applied(kind, metadata.name, desired, metadata.namespace if kind in NAMESPACED else "")


def _without(item: Input, events: Sequence[ObjectApplied], since: Micros) -> Input | None:
    """Leave out what the log says of objects that are replaced; a later word would undo the change."""
    if item.suffix != "config" or item.at < since:
        return item
    gone = {(event.kind, event.namespace, event.name) for event in events}
    kept = tuple(e for e in item.events if (e.kind, e.namespace, e.name) not in gone)  # type: ignore[attr-defined]
    return Input(item.at, "config", b"", kept, item.seq) if kept else None


def _set(items: list[Input], path: str, value: Any, since: Micros) -> list[Input]:
    kind, _, rest = path.partition("/")
    known = _objects(items)
    match = max(
        (key for key in known if key[0] == kind and rest.startswith(key[1] + ".")),
        key=lambda k: len(k[1]),
        default=None,
    )
    if match is None:
        names = [f"{k}/{n}" for k, n in known]
        raise ChangeError(f"{path}: the log has no such object", names, path.partition(".")[0])
    parts = rest[len(match[1]) + 1 :].split(".")
    changed, latest = [], None
    for item in items:
        if item.suffix != "config":
            changed.append(item)
            continue
        events: list[Event] = []
        for event in item.events:
            if isinstance(event, ObjectApplied) and (event.kind, _name(event)) == match:
                latest = event
                if item.at >= since:
                    event = _changed(event, parts, value, path)
            events.append(event)
        changed.append(Input(item.at, "config", b"", tuple(events), item.seq))
    if since and latest is not None:
        earlier = [i for i in items if i.at < since]
        before = [
            e
            for i in earlier
            for e in i.events
            if isinstance(e, ObjectApplied) and (e.kind, _name(e)) == match
        ]
        if before and (now := _changed(before[-1], parts, value, path)) is not before[-1]:
            changed.append(Input(since, "config", b"", (now,)))
            changed.sort(key=lambda item: item.at)
    return changed


def _changed(event: ObjectApplied, parts: list[str], value: Any, path: str) -> ObjectApplied:
    manifest = msgspec.json.decode(event.object)
    manifest.pop("status", None)
    here: Any = manifest
    for part in parts[:-1]:
        here = _into(here, part, path)
    place: Any = _index(here, parts[-1], path) if isinstance(here, list) else parts[-1]
    if not isinstance(here, list) and place not in here:
        here[place] = value
    elif here[place] == value or (_is_scalar(value) and str(here[place]) == str(value)):
        return event  # it stands there already; quantities may stand as text
    else:
        here[place] = value
    metadata = {
        k: v for k, v in manifest["metadata"].items() if k in ("name", "namespace", "labels", "annotations")
    }
    manifest["metadata"] = metadata
    found = _event(manifest, path)
    return msgspec.structs.replace(found, namespace=event.namespace, name=event.name)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _into(here: Any, part: str, path: str) -> Any:
    if isinstance(here, list):
        return here[_index(here, part, path)]
    if not isinstance(here, dict):
        raise ChangeError(f"{path}: there is nothing below {part!r}")
    return here.setdefault(part, {})


def _index(here: list[Any], part: str, path: str) -> int:
    """List members go by number or by their name."""
    if part.isdigit() and int(part) < len(here):
        return int(part)
    for index, member in enumerate(here):
        if isinstance(member, dict) and member.get("name") == part:
            return index
    names = [str(m["name"]) for m in here if isinstance(m, dict) and "name" in m]
    known = ", ".join(names) or f"{len(here)} members, counted from 0"
    raise ChangeError(f"{path}: there is no {part!r} in this list, which has {known}", names, part)


def _objects(items: Sequence[Input]) -> list[tuple[str, str]]:
    found = {(e.kind, _name(e)): None for item in items for e in item.events if isinstance(e, ObjectApplied)}
    return list(found)


def _name(event: ObjectApplied | ObjectDeleted) -> str:
    return f"{event.namespace}/{event.name}" if event.namespace else event.name


def _dropped(items: list[Input], drop: str, since: Micros) -> list[Input]:
    kind, _, name = drop.partition("/")
    if not name:
        raise ChangeError(f"{drop!r}: want job/NAME, job/NAMESPACE/PATTERN*, queue/NAME or KIND/NAME")
    if kind.lower() not in ("job", "queue"):
        found = (kind, name)
        if found not in _objects(items):
            raise ChangeError(
                f"{drop}: the log has no such object", [f"{k}/{n}" for k, n in _objects(items)], drop
            )
        return [
            Input(i.at, i.suffix, i.payload, tuple(e for e in i.events if (e.kind, _name(e)) != found), i.seq)  # type: ignore[attr-defined,arg-type]
            for i in items
        ]
    pattern = name if "/" in name or kind.lower() == "queue" else f"default/{name}"
    wanted = (
        _jobs_of_queue(items, name)
        if kind.lower() == "queue"
        else set(fnmatch.filter(job_names(items), pattern))
    )
    if not wanted:
        raise ChangeError(f"{drop}: the log has no such job", job_names(items), pattern)
    return [i for i in items if i.at < since or job_of(i.suffix) not in wanted]


def _jobs_of_queue(items: Sequence[Input], queue: str) -> set[str]:
    found = set()
    for item in items:
        job = job_of(item.suffix)
        if job is None:
            continue
        message = decode_message(item.payload)
        if isinstance(message, tuple) or message.type != "JobSubmitted":
            continue
        manifest = msgspec.json.decode(message.data)
        labels = manifest.get("metadata", {}).get("labels", {})
        spec = manifest.get("spec", {})
        if queue in (labels.get("kueue.x-k8s.io/queue-name"), spec.get("queueName")):
            found.add(str(job))
    return found
