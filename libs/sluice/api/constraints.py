"""Admission constraints of jobs and workloads: by annotation, by field, or both (AX1).

The field is `spec.admissionConstraints`, for every kind; each part of it has an annotation that means the
same.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from . import labels
from .errors import IMMUTABLE, FieldError, invalid
from .kueue import AdmissionConstraints
from .meta import Manifest, ObjectMeta

FIELD: Final = "spec.admissionConstraints"
NEVER: Final = "Never"
PREEMPTION: Final = "preemption"
BORROWING: Final = "borrowing"
FLAVORS: Final = "allowedResourceFlavors"

ANNOTATIONS: Final[Mapping[str, str]] = {
    PREEMPTION: labels.CANNOT_PREEMPT,
    BORROWING: labels.CANNOT_BORROW,
    FLAVORS: labels.ALLOWED_RESOURCE_FLAVORS,
}
"""Part of the field -> the annotation that means the same."""

_NONE = AdmissionConstraints()


def field_of(manifest: Manifest) -> AdmissionConstraints:
    """Return what the manifest's field says; an empty one if it has none."""
    spec = getattr(manifest, "spec", None)
    if isinstance(spec, dict):
        return _in_plain(spec.get("admissionConstraints"))
    found = getattr(spec, "admission_constraints", None)
    return found if isinstance(found, AdmissionConstraints) else _NONE


def _in_plain(value: Any) -> AdmissionConstraints:
    try:
        return _NONE if value is None else msgspec.convert(value, AdmissionConstraints)
    except msgspec.ValidationError:
        return _NONE  # validation says so


def forbids(manifest: Manifest, part: str) -> bool:
    """Does the manifest say that its preemption, or borrowing, must never be used?"""
    return getattr(field_of(manifest), part) == NEVER or _notes(manifest).get(ANNOTATIONS[part]) == "true"


def allowed_flavors(manifest: Manifest) -> tuple[str, ...]:
    """Return the flavors that the manifest restricts itself to, () for none."""
    named = tuple(field_of(manifest).allowed_resource_flavors)
    return named or _names(_notes(manifest).get(ANNOTATIONS[FLAVORS]))


def contradictions(metadata: ObjectMeta, field: AdmissionConstraints) -> Iterator[FieldError]:
    """Yield where the field and an annotation are both there and mean different things."""
    notes = metadata.annotations
    for part, key in ANNOTATIONS.items():
        note, value = notes.get(key), _value(field, part)
        if note is None or not value:
            continue
        if part == FLAVORS:
            differs = sorted(_names(note)) != sorted(field.allowed_resource_flavors)
        else:
            differs = note != "true"
        if differs:
            detail = f'contradicts metadata.annotations[{key}], which is "{note}"'
            yield invalid(f"{FIELD}.{part}", value, detail)


def changes(new: Manifest, old: Manifest) -> Iterator[FieldError]:
    """Yield what the new manifest forbids or allows otherwise than the old one: it is immutable."""
    for part in (PREEMPTION, BORROWING):
        if forbids(new, part) != forbids(old, part):
            yield immutable(new, part, by_annotation=_by_annotation(old, part))
    if sorted(allowed_flavors(new)) != sorted(allowed_flavors(old)):
        yield immutable(new, FLAVORS, by_annotation=_by_annotation(old, FLAVORS))


def immutable(new: Manifest, part: str, *, by_annotation: bool) -> FieldError:
    """Return that *part* must stay, named as the user wrote it.

    `by_annotation`: where it stood before, for one that the new manifest does not have any more.
    """
    value = _value(field_of(new), part)
    key = ANNOTATIONS[part]
    note = _notes(new).get(key)
    if value or (note is None and not by_annotation):
        return invalid(f"{FIELD}.{part}", value or "", IMMUTABLE)
    return invalid(f"metadata.annotations[{key}]", note or "", IMMUTABLE)


def _by_annotation(manifest: Manifest, part: str) -> bool:
    return not _value(field_of(manifest), part)


def _value(field: AdmissionConstraints, part: str) -> str | list[str] | None:
    return field.allowed_resource_flavors if part == FLAVORS else getattr(field, part)


def _notes(manifest: Manifest) -> Mapping[str, str]:
    metadata = getattr(manifest, "metadata", None)
    return metadata.annotations if isinstance(metadata, ObjectMeta) else {}


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip())) if text else ()


__all__ = [
    "ANNOTATIONS",
    "BORROWING",
    "FIELD",
    "FLAVORS",
    "PREEMPTION",
    "allowed_flavors",
    "changes",
    "contradictions",
    "field_of",
    "forbids",
    "immutable",
]
