"""Field errors: what is wrong with an input, where, in the words of Kubernetes' API server."""

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

BadValue = str | int | float | bool | None | dict[str, Any] | list[Any]

IMMUTABLE: Final = "field is immutable"

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises at bytes that it cannot read: no JSON, another shape, no UTF-8, nested too deep."""

_TITLE = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueNotFound": "Not found",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldUnknown": "Unknown field",
    "Unreadable": "Unreadable",
    "InternalError": "Internal error",
}
_WITHOUT_VALUE = frozenset(
    {
        "FieldValueRequired",
        "FieldValueForbidden",
        "FieldValueTooLong",
        "FieldUnknown",
        "Unreadable",
        "InternalError",
    }
)


class FieldError(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One thing wrong with an input (`spec.podSets[0].count: Invalid value: -1: must be positive`).

    `type` is one of Kubernetes' field error types, FieldUnknown, or Unreadable (not even JSON or YAML).
    `origin` names the rule where Kubernetes has a name for it (`format=k8s-label-key`).
    """

    field: str
    detail: str
    type: str = "FieldValueInvalid"
    bad_value: BadValue = ""
    origin: str = ""

    def __str__(self) -> str:
        title = _TITLE.get(self.type, self.type)
        value = "" if self.type in _WITHOUT_VALUE else f": {_shown(self.bad_value)}"
        detail = f": {self.detail}" if self.detail else ""
        place = f"{self.field}: " if self.field else ""
        return f"{place}{title}{value}{detail}"


def _shown(value: BadValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class InvalidError(ValueError):
    """An object was refused; `errors` says why, in the order of the checks."""

    def __init__(self, errors: Iterable[FieldError], what: str = "object") -> None:
        self.errors = tuple(errors)
        self.what = what
        super().__init__(f"{what} is invalid: {aggregate(self.errors)}")


def aggregate(errors: Sequence[FieldError]) -> str:
    """Return the errors as one text: bare when there is one, else `[a, b]`."""
    texts = [str(error) for error in errors]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def plain(value: object) -> BadValue:
    """Return *value* as JSON shows it, structs included, for use as a bad value."""
    plain_value: BadValue = msgspec.to_builtins(value)
    if isinstance(plain_value, int) and not -(2**63) <= plain_value < 2**63:
        # Snapshots hold 64 bits, errors anything.
        return str(plain_value)
    return plain_value


def invalid(field: str, value: object, detail: str, origin: str = "") -> FieldError:
    """The value breaks a rule, which *detail* says; *origin* names the rule if others share it."""
    return FieldError(field=field, detail=detail, bad_value=plain(value), origin=origin)


def type_invalid(field: str, value: object, detail: str) -> FieldError:
    """The value is of another type than the field."""
    return FieldError(field=field, detail=detail, bad_value=plain(value), type="FieldValueTypeInvalid")


def required(field: str, detail: str = "") -> FieldError:
    """The field must be there and is not."""
    return FieldError(field=field, detail=detail, type="FieldValueRequired")


def duplicate(field: str, value: object, detail: str = "") -> FieldError:
    """The value may stand there once only."""
    return FieldError(field=field, detail=detail, bad_value=plain(value), type="FieldValueDuplicate")


def not_supported(field: str, value: object, supported: Iterable[str]) -> FieldError:
    """The value is none of *supported*, which are shown in the given order."""
    shown = ", ".join(json.dumps(value, ensure_ascii=False) for value in supported)
    detail = f"supported values: {shown}" if shown else ""
    return FieldError(field=field, detail=detail, bad_value=plain(value), type="FieldValueNotSupported")


def not_found(field: str, value: object) -> FieldError:
    """The value names something that is not there."""
    return FieldError(field=field, detail="", bad_value=plain(value), type="FieldValueNotFound")


def forbidden(field: str, detail: str) -> FieldError:
    """The field may not be set here, or not be changed."""
    return FieldError(field=field, detail=detail, type="FieldValueForbidden")


def too_long(field: str, most: int) -> FieldError:
    """The text is longer than *most* bytes."""
    return FieldError(field=field, detail=f"may not be more than {most} bytes", type="FieldValueTooLong")


def too_many(field: str, actual: int, most: int) -> FieldError:
    """The list has *actual* items, *most* may be."""
    detail = f"must have at most {most} items"
    return FieldError(field=field, detail=detail, bad_value=actual, type="FieldValueTooMany")


def unknown_field(field: str, suggestion: str = "") -> FieldError:
    """The kind has no such field; *suggestion* is the one probably meant."""
    detail = f'did you mean "{suggestion}"?' if suggestion else ""
    return FieldError(field=field, detail=detail, type="FieldUnknown")


def unreadable(detail: str) -> FieldError:
    """What was given is no manifest at all."""
    return FieldError(field="", detail=detail, type="Unreadable")


def near_miss(word: str, known: dict[str, Any] | list[str] | tuple[str, ...]) -> str:
    """Return the known word that was probably meant, or ''."""
    by_case = {name.lower(): name for name in known}
    if word.lower() in by_case:
        return by_case[word.lower()]
    matches = difflib.get_close_matches(word.lower(), list(by_case), n=1, cutoff=0.7)
    return by_case[matches[0]] if matches else ""
