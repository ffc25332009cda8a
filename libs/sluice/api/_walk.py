"""Finds everything wrong with the shape of a manifest, where the fast decoder stops at the first error."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import inspect

from .errors import (
    BadValue,
    FieldError,
    invalid,
    near_miss,
    plain,
    required,
    type_invalid,
    unknown_field,
)

_ENUM = re.compile(r"Invalid enum value (.*)")
_BOUND = re.compile(r"Expected `int` (>=|<=) (-?\d+)")
_WORDS = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "array": "list",
    "object": "mapping",
    "null": "null",
}


SUGGESTIONS = 1000
"""Unknown fields of which it is said what was probably meant: finding that takes long, nobody reads more."""

_Budget = Iterator[int]


def without_nulls(value: object) -> Any:
    """Return *value* with null fields left out: to Kubernetes null and absent are the same."""
    if isinstance(value, dict):
        return {
            key: item if type(item) is str else without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def huge_integers(value: object, path: str = "") -> Iterator[FieldError]:
    """Yield an error for each integer beyond 64 bits, also where anything goes: no snapshot could hold it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from huge_integers(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from huge_integers(item, f"{path}[{index}]")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield invalid(path, str(value), "must fit into 64 bits")


@cache
def _described(kind: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(kind)


def shape_errors(value: object, kind: type[msgspec.Struct]) -> list[FieldError]:
    """Return every unknown, missing and mistyped field of *value*, in the order of the text."""
    return list(_errors(value, _described(kind), "", iter(range(SUGGESTIONS))))


def _errors(value: object, kind: inspect.Type, path: str, meant: _Budget) -> Iterator[FieldError]:
    match kind:
        case inspect.UnionType(types=members):
            yield from _union_errors(value, members, path, meant)
        case inspect.StructType() if isinstance(value, dict):
            yield from _struct_errors(value, kind, path, meant)
        case inspect.ListType(item_type=item) if isinstance(value, list):
            for index, element in enumerate(value):
                yield from _errors(element, item, f"{path}[{index}]", meant)
        case inspect.DictType(value_type=item) if isinstance(value, dict):
            for key, element in value.items():
                yield from _errors(element, item, f"{path}[{key}]", meant)
        case _:
            yield from _leaf_errors(value, kind, path)


def _union_errors(
    value: object, members: tuple[inspect.Type, ...], path: str, meant: _Budget
) -> Iterator[FieldError]:
    structured = [kind for kind in members if isinstance(kind, inspect.StructType | inspect.ListType)]
    if structured and value is not None:
        yield from _errors(value, structured[0], path, meant)
    else:
        yield from _leaf_errors(value, inspect.UnionType(members), path)


def _struct_errors(
    value: dict[str, Any], kind: inspect.StructType, path: str, meant: _Budget
) -> Iterator[FieldError]:
    fields = {field.encode_name: field for field in kind.fields}
    for key, element in value.items():
        place = f"{path}.{key}" if path else key
        field = fields.get(key)
        if field is None:
            yield unknown_field(place, near_miss(key, fields) if next(meant, None) is not None else "")
        else:
            yield from _errors(element, field.type, place, meant)
    for name, field in fields.items():
        if field.required and name not in value:
            yield required(f"{path}.{name}" if path else name)


_WRONG: Any = object()
"""What is not of its type, and has no parts that are."""


def fitting(value: object, kind: type[msgspec.Struct], *, filled: bool) -> object:
    """Return what of *value* is of the shape of *kind*, so that the rest of it can be judged.

    What is wrong or missing is left out where it may be, unless *filled*: then something stands in its place,
    and in that of all fields that one may be meant for which there is not.
    Items of lists keep their numbers.
    """
    return _fitting(value, _described(kind), filled)


def _fitting(value: object, kind: inspect.Type, filled: bool) -> Any:
    match kind:
        case inspect.UnionType(types=members):
            structured = [one for one in members if isinstance(one, inspect.StructType | inspect.ListType)]
            if structured and value is not None:
                return _fitting(value, structured[0], filled)
        case inspect.StructType() if isinstance(value, dict):
            return _fitting_struct(value, kind, filled)
        case inspect.ListType(item_type=item) if isinstance(value, list):
            return [_in_place(_fitting(element, item, filled), item, filled) for element in value]
        case inspect.DictType(value_type=item) if isinstance(value, dict):
            return {
                key: _in_place(_fitting(element, item, filled), item, filled)
                for key, element in value.items()
            }
    return _WRONG if any(_leaf_errors(value, kind, "")) else value


def _fitting_struct(value: dict[str, Any], kind: inspect.StructType, filled: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    # Which of the fields was meant by one that there is not, nobody knows.
    misspelt = not value.keys() <= {field.encode_name for field in kind.fields}
    for field in kind.fields:
        name = field.encode_name
        fits = _fitting(value[name], field.type, filled) if name in value else _WRONG
        if fits is not _WRONG:
            found[name] = fits
        elif field.required or (filled and (name in value or misspelt)):
            found[name] = _filler(field.type, filled)
    return found


def _in_place(fits: Any, kind: inspect.Type, filled: bool) -> Any:
    return _filler(kind, filled) if fits is _WRONG else fits


def _filler(kind: inspect.Type, filled: bool) -> Any:
    """Return a value of a type: the least, or if *filled* another one."""
    match kind:
        case inspect.UnionType(types=members):
            some = [one for one in members if not isinstance(one, inspect.NoneType)]
            return None if len(some) < len(members) and not filled else _filler(some[0], filled)
        case inspect.StructType():
            return _fitting_struct({}, kind, filled)
        case inspect.LiteralType(values=values):
            return values[-1 if filled else 0]
        case inspect.StrType():
            return "a" if filled else ""
        case inspect.BoolType():
            return filled
        case inspect.IntType(ge=least, le=most):
            return max(int(filled), least or 0) if most is None else min(max(int(filled), least or 0), most)
        case inspect.FloatType():
            return float(filled)
        case inspect.ListType():
            return []
        case inspect.NoneType():
            return None
        case _:
            return {}


def _leaf_errors(value: object, kind: inspect.Type, path: str) -> Iterator[FieldError]:
    expected = _python_type(kind)
    if expected is None:
        return
    try:
        msgspec.convert(value, expected)
    except msgspec.ValidationError as error:
        yield leaf_error(value, kind, path, str(error))


def leaf_error(value: object, kind: inspect.Type, path: str, text: str) -> FieldError:
    """Translate what msgspec says of a single value."""
    if _ENUM.match(text):
        choices = [choice for choice in _choices(kind) if choice]
        quoted = ", ".join(f'"{choice}"' for choice in choices)
        return FieldError(
            field=path,
            detail=f"supported values: {quoted}",
            type="FieldValueNotSupported",
            bad_value=_shown(value),
        )
    if bound := _BOUND.match(text):
        least = bound[1] == ">="
        return invalid(path, _shown(value), f"must be {'at least' if least else 'at most'} {bound[2]}")
    wanted, _, got = text.partition(" - at ")[0].removeprefix("Expected ").partition(", got ")
    wanted_words = " or ".join(
        _WORDS.get(word, word) for word in wanted.strip("`").split(" | ") if word != "null"
    )
    got_word = _WORDS.get(got.strip("`"), got.strip("`"))
    hint = ""
    if wanted_words == "string" and isinstance(value, bool | int | float):
        hint = "; put it in quotes"
    return type_invalid(path, _shown(value), f"expected {wanted_words}, got {got_word}{hint}")


def _shown(value: object) -> BadValue:
    return plain(value)


def _choices(kind: inspect.Type) -> list[str]:
    match kind:
        case inspect.LiteralType(values=values):
            return [str(value) for value in values]
        case inspect.UnionType(types=members):
            return [choice for member in members for choice in _choices(member)]
        case _:
            return []


def _python_type(kind: inspect.Type) -> Any:
    """Return a type for `msgspec.convert`, or None where anything goes."""
    match kind:
        case inspect.AnyType() | inspect.RawType():
            return None
        case inspect.StructType(cls=cls):
            return cls
        case inspect.LiteralType(values=values):
            from typing import Literal

            return Literal[values]
        case inspect.IntType(ge=least, le=most):
            return Annotated[int, msgspec.Meta(ge=least, le=most)]
        case inspect.UnionType(types=members):
            types = [_python_type(member) for member in members]
            union = types[0]
            for member in types[1:]:
                union = union | member
            return union
        case _:
            return _PLAIN[type(kind)]


_PLAIN: dict[type[inspect.Type], Any] = {
    inspect.StrType: str,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.NoneType: type(None),
    inspect.ListType: list[Any],
    inspect.DictType: dict[str, Any],
}
