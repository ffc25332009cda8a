"""Outcome of a request to apply or delete an object, or a refusal in an API server's words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sluice.api import kueue, kueue_config
from sluice.api.core_v1 import Namespace
from sluice.api.custom import CustomObject, CustomResourceDefinition
from sluice.api.decode import DecodeError, decode_object, find_kind
from sluice.api.defaults import default
from sluice.api.errors import FieldError, invalid
from sluice.api.features import NONE
from sluice.api.mapped import JobKind, mappings_of
from sluice.api.meta import ObjectMeta
from sluice.api.scheme import BY_GVK, WORDS
from sluice.api.spelling import as_written
from sluice.api.validation import custom, validate, validate_update
from sluice.api.validation import warnings as validation_warnings
from sluice.api.validation.everything import all_errors
from sluice.protocol.query import Cause, Reference, Result, Status, StatusDetails

from .objects import (
    DEFINITION,
    KINDS,
    NAMESPACED,
    PROTECTED_NAMESPACE,
    ConfigObject,
    Draft,
    Usage,
    cohort_cycle,
    contents,
    definition_of,
    manifest_of,
    object_key,
    references,
    struct_of,
    users,
)

__all__ = ["plan_apply", "plan_delete", "status"]

_PLURAL = {kind.kind: kind.plural for kind in BY_GVK.values()}
_CODES = {
    "BadRequest": 400, "Forbidden": 403, "NotFound": 404, "Conflict": 409, "Invalid": 422,
    "RequestEntityTooLarge": 413, "InternalError": 500, "ServiceUnavailable": 503, "TooManyRequests": 429,
}  # fmt: skip

Named = CustomResourceDefinition | JobKind

MAX_BYTES = 1024 * 1024
"""Largest object taken, about what an API server takes: every reader of the log must hold it."""


def status(
    reason: str, message: str, *, kind: str = "", name: str = "", errors: Sequence[FieldError] = ()
) -> Status:
    """Return a refusal; *errors* become its causes."""
    causes = [
        Cause(field=error.field, reason=error.type, message=str(error).removeprefix(f"{error.field}: "))
        for error in errors
    ]
    details = StatusDetails(name=name, kind=kind, causes=causes)
    return Status(reason=reason, message=message, code=_CODES[reason], details=details)


def invalid_status(kind: str, name: str, errors: Sequence[FieldError]) -> Status:
    """Return the refusal of an object with wrong fields."""
    listed = "; ".join(str(error) for error in errors)
    return status("Invalid", f'{kind} "{name}" is invalid: {listed}', kind=kind, name=name, errors=errors)


def not_found(kind: str, name: str) -> Status:
    """Return the refusal that names an object which does not exist."""
    return status("NotFound", f'{_PLURAL.get(kind, kind)} "{name}" not found', kind=kind, name=name)


# Apply


def plan_apply(draft: Draft, manifest: dict[str, Any], default_namespace: str) -> Result:
    """Plan one manifest as *draft*'s next change.

    1. Decode strictly; what only the server sets is ignored, except that a resourceVersion must be current.
    2. Fill in defaults; validate, alone and against what exists (immutable fields, cohort cycles).
    3. Nothing changed: unchanged, no event. Else ObjectApplied.
    """
    try:
        kind = _config_kind(draft, manifest)
        desired, claimed = _decoded(draft, manifest, kind, default_namespace)
    except DecodeError as error:
        return _undecodable(manifest, error, gates(draft))
    except _Refusal as refusal:
        return _refused(manifest, refusal.status)
    name, namespace = desired.metadata.name, desired.metadata.namespace
    before = draft.get(kind, object_key(kind, namespace, name))
    against = _reason_against(draft, kind, desired, before, claimed, manifest)
    if against is not None:
        return _result("refused", kind, desired, status_=against)
    warnings = list(_warnings(draft, kind, desired, before))
    if kueue_config.is_kueue_config(manifest):
        warnings += kueue_config.warnings(manifest)
    if before is not None and not _differs(before, desired):
        return _result("unchanged", kind, before, warnings)
    if kind in NAMESPACED and draft.get("Namespace", namespace) is None:
        # Namespaces come into being with what is first put into them.
        draft.store("Namespace", default(Namespace(metadata=ObjectMeta(name=namespace))), spec_changed=True)
    spec_changed = before is None or _differs(before, desired, metadata=False)
    whole = draft.store(kind, desired, spec_changed=spec_changed)
    return _result("created" if before is None else "configured", kind, whole, warnings)


def _reason_against(
    draft: Draft,
    kind: str,
    desired: ConfigObject,
    before: ConfigObject | None,
    claimed: ObjectMeta,
    written: Mapping[str, Any],
) -> Status | None:
    """Return the refusal of an object that was decoded from *written*, None when it may be stored."""
    name = desired.metadata.name
    size = len(msgspec.json.encode(desired))
    if size > MAX_BYTES:
        message = f'{kind} "{name}" has {size} bytes, the limit is {MAX_BYTES}'
        return status("RequestEntityTooLarge", message, kind=kind, name=name)
    if errors := as_written(check(draft, desired, before), written):
        return invalid_status(kind, name, errors)
    if claimed.resource_version and not draft.is_current(kind, desired, claimed.resource_version):
        return status("Conflict", _STALE, kind=kind, name=name)
    return None


class _Refusal(Exception):
    def __init__(self, refused: Status) -> None:
        super().__init__(refused.message)
        self.status = refused


def _config_kind(draft: Draft, manifest: dict[str, Any]) -> str:
    """Return the manifest's kind.

    Raises:
        DecodeError: no such kind.
        _Refusal: a kind that is not configuration.
    """
    found = find_kind(manifest, custom=True)
    if found.type is CustomObject:
        definition = definition_of(draft.all(DEFINITION), found.kind)
        if definition is None or definition.spec.group != found.group:
            if _of_own_job(draft, found.api_version, found.kind):
                raise _Refusal(status("BadRequest", _submitted(found.kind), kind=found.kind))
            hint = "apply the CustomResourceDefinition that registers it first, or of jobs, the JobKind"
            message = f'no matches for kind "{found.kind}" in version "{found.api_version}": {hint}'
            raise _Refusal(status("NotFound", message, kind=found.kind))
        if definition.metadata.deletion_timestamp is not None:
            name = str((manifest.get("metadata") or {}).get("name", ""))
            if draft.get(found.kind, name) is None:
                message = f"{definition.metadata.name} is being deleted; it takes no new objects"
                raise _Refusal(status("Conflict", message, kind=found.kind, name=name))
        return found.kind
    if found.is_job or found.kind not in KINDS:
        what = "jobs are submitted, not applied" if found.is_job else "workloads are made from jobs"
        raise _Refusal(status("BadRequest", _submitted(found.kind, what), kind=found.kind))
    return found.kind


def _submitted(kind: str, what: str = "jobs are submitted, not applied") -> str:
    return f"{kind} is no configuration: {what}; use `sluice submit -f`"


def _of_own_job(draft: Draft, api_version: str, kind: str) -> bool:
    """Tell whether a JobKind describes it."""
    specs = [one.spec for one in draft.all("JobKind") if isinstance(one, JobKind)]
    return (api_version, kind) in mappings_of(specs)


def _decoded(
    draft: Draft, manifest: dict[str, Any], kind: str, default_namespace: str
) -> tuple[ConfigObject, ObjectMeta]:
    """Return the object with defaults, without what only the server sets; and the metadata as it came."""
    # What `get -o yaml` printed can be applied again: the status in it is not ours to read.
    plain = {key: value for key, value in manifest.items() if key != "status"}
    found = decode_object(plain, custom=kind not in KINDS)
    assert isinstance(found, struct_of(kind))
    claimed: ObjectMeta = found.metadata
    namespace = (claimed.namespace or default_namespace) if kind in NAMESPACED else ""
    metadata = ObjectMeta(
        name=claimed.name,
        namespace=namespace,
        labels=claimed.labels,
        annotations={k: v for k, v in claimed.annotations.items() if k != _LAST_APPLIED},
        owner_references=claimed.owner_references,
    )
    return default(msgspec.structs.replace(found, metadata=metadata), gates(draft)), claimed


_STALE = "the object has been modified; please apply your changes to the latest version and try again"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _differs(before: ConfigObject, desired: ConfigObject, *, metadata: bool = True) -> bool:
    """Tell whether people's part of an object changed: everything but what the server stamps."""
    if msgspec.structs.replace(before, metadata=desired.metadata) != desired:
        return True
    if not metadata:
        return False
    old, new = before.metadata, desired.metadata
    return (old.labels, old.annotations, old.owner_references) != (
        new.labels,
        new.annotations,
        new.owner_references,
    )


def gates(draft: Draft) -> Mapping[str, bool]:
    """Return the feature gates that the cell's Configuration overrides."""
    found = draft.get("Configuration", "default")
    return found.spec.feature_gates if isinstance(found, kueue.Configuration) else NONE


def check(draft: Draft, desired: ConfigObject, before: ConfigObject | None) -> list[FieldError]:
    """Return what is wrong with the object, alone and against what exists."""
    if before is None:
        errors = validate(desired, gates(draft))
    else:
        errors = validate_update(desired, before, gates(draft))
    match desired:
        case kueue.Cohort():
            errors += _cohort_errors(draft, desired)
        case CustomResourceDefinition() | JobKind() if not errors:
            errors += _taken(draft, desired)
        case CustomObject() if not errors:
            definition = definition_of(draft.all(DEFINITION), desired.kind)
            assert definition is not None
            errors += custom.check_object(desired, definition)
    return errors


def _named(draft: Draft) -> Iterator[Named]:
    """Yield all that gives a kind its names."""
    for kind in (DEFINITION, "JobKind"):
        yield from (one for one in draft.all(kind) if isinstance(one, CustomResourceDefinition | JobKind))


def _taken(draft: Draft, desired: Named) -> list[FieldError]:
    """A kind has one meaning in a cell, as checks, executors and the log know it by its name alone."""
    kind = desired.spec.names.kind
    for other in _named(draft):
        if other.spec.names.kind == kind and not _is_same(other, desired):
            return [invalid("spec.names.kind", kind, f"is registered by {other.metadata.name}")]
    if any(name.lower() == kind.lower() for _, name in BY_GVK):
        return [invalid("spec.names.kind", kind, "is a kind of Kubernetes, Kueue or Sluice")]
    return _words_taken(draft, desired)


def _is_same(one: Named, other: Named) -> bool:
    return type(one) is type(other) and one.metadata.name == other.metadata.name


def _words_taken(draft: Draft, desired: Named) -> list[FieldError]:
    """What people type for a kind has one meaning, too: its plural, singular and short names.

    A definition that has lost a name to another one before this was refused may still be applied as it is.
    """
    own = {word for _, word in _words(desired)}
    kept: set[str] = set()
    taken = dict.fromkeys(sorted(own & WORDS), "is a name of a kind of Kubernetes, Kueue or Sluice")
    for other in _named(draft):
        words = [word for _, word in _words(other)]
        if _is_same(other, desired):
            kept.update(words)
        else:
            for word in words:
                taken.setdefault(word, f"is registered by {other.metadata.name}")
    return [
        invalid(field, word, taken[word])
        for field, word in _words(desired)
        if word in taken and word not in kept
    ]


def _words(definition: Named) -> list[tuple[str, str]]:
    """Return every word that names the definition's kind on the command line, with its field."""
    names = definition.spec.names
    listed = [("kind", names.kind), ("plural", names.plural), ("singular", names.singular)]
    listed += [(f"shortNames[{i}]", word) for i, word in enumerate(names.short_names)]
    fields: dict[str, str] = {}
    for field, word in listed:
        if word:
            fields.setdefault(word.lower(), f"spec.names.{field}")
    return [(field, word) for word, field in fields.items()]


def _warnings(draft: Draft, kind: str, desired: ConfigObject, before: ConfigObject | None) -> Iterator[str]:
    """Yield what is allowed but probably not meant: what refers to nothing works once that exists."""
    if before is not None and before.metadata.deletion_timestamp is not None:
        yield f"this {kind} is being deleted; the change does not stop that"
    yield from validation_warnings(desired)
    if isinstance(desired, CustomResourceDefinition):
        for word in custom.unchecked(desired):
            yield f"{word} in its schema is not enforced"
    if isinstance(desired, JobKind) and isinstance(before, JobKind) and before.spec != desired.spec:
        yield "jobs that live go on by the mapping that they were submitted with"
    for other, name in references(desired):
        if draft.get(other, name) is not None:
            continue
        if isinstance(desired, kueue.AdmissionCheck):
            yield f'there is no {other} "{name}" (yet); until there is, its controller gets no parameters'
        else:
            yield f'there is no {other} "{name}" (yet); until there is, the queue is inactive'


def _cohort_errors(draft: Draft, desired: kueue.Cohort) -> list[FieldError]:
    parent = desired.spec.parent_name
    cycle = cohort_cycle(draft, desired.metadata.name, parent)
    if not cycle:
        return []
    return [invalid("spec.parentName", parent, f"the cohort tree would have a cycle: {' -> '.join(cycle)}")]


# Delete


def plan_delete(draft: Draft, usage: Usage, reference: Reference, default_namespace: str) -> Result:
    """Plan the deletion of one object; see `core.config` for what each kind does."""
    kind, name = reference.kind, reference.name
    if kind not in KINDS and definition_of(draft.all(DEFINITION), kind) is None:
        return Result(
            outcome="refused",
            kind=kind,
            name=name,
            status=status("BadRequest", f"{kind} is no configuration and cannot be deleted here", kind=kind),
        )
    namespace = (reference.namespace or default_namespace) if kind in NAMESPACED else ""
    target = draft.get(kind, object_key(kind, namespace, name))
    if target is None:
        refused = not_found(kind, name)
        return Result(outcome="refused", kind=kind, name=name, namespace=namespace, status=refused)
    if kind == "Namespace" and (refusal := _namespace_refusal(draft, usage, name)):
        return _result("refused", kind, target, status_=refusal)
    waits_for = users(draft, usage, kind, name)
    if not waits_for:
        if kind == "Namespace":
            # As in Kubernetes, what is left in it goes with it.
            for held in [found for found in draft.all("LimitRange") if found.metadata.namespace == name]:
                draft.remove("LimitRange", held)
        draft.remove(kind, target)
        left = _of_kind(usage, target) if isinstance(target, JobKind) else None
        return _result("deleted", kind, target, left or list(_left_behind(usage, kind, namespace, name)))
    if target.metadata.deletion_timestamp is None:
        target = draft.terminate(kind, target)
    few = [*waits_for[:3], *([f"{len(waits_for) - 3} more"] if len(waits_for) > 3 else [])]
    warnings = [f"in use by {', '.join(few)}; it goes when they have gone"]
    if kind == "ClusterQueue" and (count := usage.unadmitted(name)):
        # As in Kueue: what is admitted runs on, a mere reservation ends with its queue.
        who = (
            "1 of them is not admitted yet: it gives"
            if count == 1
            else f"{count} of them are not admitted yet: they give"
        )
        warnings.append(f"{who} the quota up now, and what checks have said of it is withdrawn")
    return _result("terminating", kind, target, warnings)


def _of_kind(usage: Usage, kind: JobKind) -> list[str]:
    """Return what becomes of the jobs of a kind that is deleted."""
    name = kind.spec.names.kind
    count = usage.unfinished_of_kind(name)
    if not count:
        return []
    who = f"1 {name} is not over: it goes" if count == 1 else f"{count} {name} jobs are not over: they go"
    return [f"{who} on by the mapping that it had; new ones are refused"]


def _left_behind(usage: Usage, kind: str, namespace: str, name: str) -> Iterator[str]:
    """Yield what becomes of those that still name what is deleted."""
    if kind == "LocalQueue" and (count := usage.waiting(f"{namespace}/{name}")):
        who = "1 workload waits in it: it gets" if count == 1 else f"{count} workloads wait in it: they get"
        yield f"{who} no quota until there is a LocalQueue of this name again"
    if kind == "LocalQueue":
        admitted, reserving = usage.holding(f"{namespace}/{name}")
        if admitted:
            who = "1 workload of it runs on" if admitted == 1 else f"{admitted} workloads of it run on"
            yield f"{who}; once stopped, none gets quota until there is a LocalQueue of this name again"
        if reserving:
            one = reserving == 1
            who = (
                "1 workload of it has quota and is"
                if one
                else f"{reserving} workloads of it have quota and are"
            )
            yield f"{who} not admitted: the quota is given up, with what checks have said"
    if kind == "WorkloadPriorityClass" and (count := usage.of_priority_class(name)):
        who = "1 workload uses it and keeps its" if count == 1 else f"{count} workloads use it and keep their"
        yield f"{who} priority, but a job that names it is refused until there is one of this name again"


def _namespace_refusal(draft: Draft, usage: Usage, name: str) -> Status | None:
    if name == PROTECTED_NAMESPACE:
        return status("Forbidden", f'namespace "{name}" may not be deleted', kind="Namespace", name=name)
    if held := contents(draft, usage, name):
        message = f'namespace "{name}" still has {" and ".join(held)}; delete these first'
        return status("Conflict", message, kind="Namespace", name=name)
    return None


# Results


def _result(
    outcome: Any, kind: str, whole: ConfigObject, warnings: Sequence[str] = (), status_: Status | None = None
) -> Result:
    return Result(
        outcome=outcome,
        kind=kind,
        name=whole.metadata.name,
        namespace=whole.metadata.namespace,
        object=None if status_ else manifest_of(kind, whole),
        warnings=list(warnings),
        status=status_,
    )


def _refused(manifest: dict[str, Any], refused: Status) -> Result:
    metadata = manifest.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    return Result(
        outcome="refused",
        kind=str(manifest.get("kind", "")),
        name=str(fields.get("name", "")),
        namespace=str(fields.get("namespace", "")),
        status=refused,
    )


def _undecodable(manifest: dict[str, Any], error: DecodeError, gates: Mapping[str, bool]) -> Result:
    kind = str(manifest.get("kind", "")) or "manifest"
    metadata = manifest.get("metadata")
    name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
    return _refused(manifest, invalid_status(kind, name, all_errors(error, gates)))
