"""Manifests of a case as structs, and recorded field errors against ours."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from sluice.api.decode import decode_object
from sluice.api.errors import FieldError
from sluice.api.meta import Manifest

from .framework import Json, compare


def manifest[M: Manifest](value: Json, kind: type[M]) -> M:
    """Decode one manifest of a case; cases are not defaulted, so neither is this."""
    decoded = decode_object(value)
    assert isinstance(decoded, kind), f"{type(decoded).__name__} is no {kind.__name__}"
    return decoded


def only[M: Manifest](case: Json, kind: type[M]) -> M:
    """Return the case's only manifest of *kind*."""
    (value,) = case["input"][kind.__name__]
    return manifest(value, kind)


def compare_errors(case: Json, errors: Sequence[FieldError]) -> None:
    """Compare the attributes that the recorded test compares, in order, and the first error where asked.

    Raises:
        AssertionError: names the first difference.
    """
    expect = case["expect"]
    wanted = expect["wantErr"] or []
    if isinstance(wanted, dict):
        wanted = wanted["errors"]
    attributes = expect["compared"]
    compare(
        [_attributes(_wire(error), attributes) for error in errors],
        [_attributes(error, attributes) for error in wanted],
        "errors",
    )
    first = _wire(errors[0]) if errors else {}
    for key, attribute in (("wantFirstErrorDetail", "detail"), ("wantFirstErrorBadValue", "badValue")):
        if expect.get(key):
            compare(str(first.get(attribute)), expect[key], f"errors[0].{attribute}")
    _compare_observed(case, errors)


def _compare_observed(case: Json, errors: Sequence[FieldError]) -> None:
    """Also compare the whole errors that were observed: users read the detail."""
    observed = case["observed"]["errors"] or []
    if isinstance(observed, dict):
        observed = observed["errors"]
    for index, (error, real) in enumerate(zip(errors, observed, strict=True)):
        if "is not a multiple of" in real["detail"]:
            continue  # the reference prints a pointer there
        compare(error.detail, real["detail"], f"observed[{index}].detail")


def _wire(error: FieldError) -> Json:
    return {"type": error.type, **cast(Json, msgspec.to_builtins(error))}


def _attributes(error: Json, attributes: Sequence[str]) -> dict[str, Any]:
    defaults = {"badValue": "", "detail": "", "origin": ""}
    return {name: error.get(name, defaults.get(name)) for name in attributes}


def compare_any_error(case: Json, errors: Sequence[FieldError]) -> None:
    """Compare whether there is an error at all, and the errors that were observed.

    Raises:
        AssertionError: names the first difference.
    """
    compare(bool(errors), case["expect"]["wantAnyError"], "any error")
    observed = case["observed"]["errors"] or []
    compare([str(error) for error in errors], [_text(error) for error in observed], "errors")


def _text(error: Json) -> str:
    return str(
        FieldError(
            field=error["field"], type=error["type"], bad_value=error["badValue"], detail=error["detail"]
        )
    )
