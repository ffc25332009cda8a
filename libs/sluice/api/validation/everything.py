"""All that is wrong with a manifest in one answer: its shape, and the values of what is of its shape.

Nothing is said that could be otherwise once the shape is mended: what is wrong is left out, or has something
in its place, and only what is found both ways counts; and that only if it is not about what is wrong, or
around it, or speaks of it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from sluice.api.decode import DecodeError
from sluice.api.defaults import default
from sluice.api.errors import FieldError
from sluice.api.features import NONE
from sluice.api.meta import Manifest
from sluice.api.spelling import as_written

from . import validate

_SUGGESTED = re.compile(r'did you mean "([^"]+)"')
_LAST = re.compile(r"\.?([^.\[\]]+)(\[[^\]]*\])*$")
"""The last name in a field."""


MOST = 100
"""Of so many errors, of shape or of values, nobody needs more."""


def all_errors(error: DecodeError, gates: Mapping[str, bool] = NONE) -> tuple[FieldError, ...]:
    """Return why something is no manifest, and what is wrong with the values of the rest of it."""
    wrong = error.wrong
    if wrong is None or len(error.errors) > MOST:
        return error.errors
    found = [_checked(rest, gates) for rest in wrong.rests()]
    if not found:
        return error.errors
    doubtful = list(_doubtful(wrong.canonical))
    both = [one for one in found[0][:MOST] if all(one in other for other in found[1:])]
    if any(_is_within(field, "metadata") for field, _ in doubtful):
        # Labels and annotations say how the rest is meant.
        both = [one for one in both if _is_within(one.field, "metadata")]
    sure = [one for one in both if not _is_of_others(one) and not _is_any(one, doubtful)]
    return (*error.errors, *(one for one in as_written(sure, wrong.written) if one not in error.errors))


def _checked(rest: Manifest, gates: Mapping[str, bool]) -> list[FieldError]:
    # A Pod is its own template, so what is said of that begins with a dot.
    return [replace(one, field=one.field.removeprefix(".")) for one in validate(default(rest, gates), gates)]


def _doubtful(wrong: Iterable[FieldError]) -> Iterator[tuple[str, str]]:
    """Yield each field that is wrong, or is probably meant by one, and its name."""
    for error in wrong:
        yield error.field, _name(error.field)
        if error.type == "FieldUnknown":
            around = error.field[: -len(_name(error.field))]
            for meant in _SUGGESTED.findall(error.detail):
                yield around + meant, meant


def _name(field: str) -> str:
    found = _LAST.search(field)
    return found[1] if found else field


def _is_of_others(one: FieldError) -> bool:
    """Tell whether an error depends on what else is there, which may be what is wrong."""
    nothing = one.type == "FieldValueNotSupported" and not one.detail
    return nothing or one.type in ("FieldValueNotFound", "FieldValueForbidden") or one.detail.endswith("[]")


def _is_any(one: FieldError, doubtful: Iterable[tuple[str, str]]) -> bool:
    return any(
        _is_within(one.field, field) or _is_within(field, one.field) or _speaks(one, field, name)
        for field, name in doubtful
    )


def _is_within(field: str, around: str) -> bool:
    return not around or field == around or (field.startswith(around) and field[len(around)] in ".[")


def _speaks(one: FieldError, field: str, name: str) -> bool:
    """Tell whether an error may go with the field: it names it, or misses one beside it."""
    if one.type == "FieldValueRequired" and _around(one.field) == _around(field):
        return True
    return re.search(rf"\b{re.escape(name)}\b", one.detail) is not None


def _around(field: str) -> str:
    return field[: -len(_name(field))].rstrip(".")


__all__ = ["all_errors"]
