"""Pictures of object graphs, to show that a call changes nothing of what it was given."""

import types
from collections import deque
from collections.abc import Collection, Iterator
from enum import Enum
from fractions import Fraction
from typing import Any

Field = tuple[type, str]
"""A class and one of its attributes."""

_ATOMS = (
    type(None),
    bool,
    int,
    float,
    str,
    bytes,
    Fraction,
    Enum,
    type,
    types.FunctionType,
    types.MethodType,
)


def picture(value: Any, leave_out: Collection[Field] = ()) -> Any:
    """Return nested tuples that are equal as long as nothing reachable from *value* is changed.

    Dictionaries count with their order, objects with their type and attributes but those to *leave_out*; what
    is met again counts as itself. So do functions, and with them what they close over.
    """
    return _Painter(frozenset(leave_out)).of(value)


class _Painter:
    def __init__(self, leave_out: frozenset[Field]) -> None:
        self.leave_out = leave_out
        self.met: set[int] = set()

    def of(self, value: Any) -> Any:
        if isinstance(value, _ATOMS):
            return value
        if id(value) in self.met:
            return ("again", id(value))
        self.met.add(id(value))
        kind = type(value)
        if isinstance(value, dict):
            return (kind, *((self.of(key), self.of(one)) for key, one in value.items()))
        if isinstance(value, set | frozenset):
            return (kind, frozenset(map(self.of, value)))
        if isinstance(value, list | tuple | deque):
            return (kind, *map(self.of, value))
        return (kind, *((name, self.of(getattr(value, name))) for name in self._names(value)))

    def _names(self, value: Any) -> Iterator[str]:
        slots = [name for one in type(value).__mro__ for name in _slots(one)]
        for name in (*slots, *getattr(value, "__dict__", ())):
            if hasattr(value, name) and not any((one, name) in self.leave_out for one in type(value).__mro__):
                yield name


def _slots(one: type) -> tuple[str, ...]:
    found = one.__dict__.get("__slots__", ())
    names = (found,) if isinstance(found, str) else tuple(found)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def difference(before: Any, after: Any, path: str = "") -> str:
    """Return where two pictures begin to differ, as a path of attributes and places; '' if they do not."""
    if before == after:
        return ""
    if not (isinstance(before, tuple) and isinstance(after, tuple)) or len(before) != len(after):
        return f"{path}: {_short(before)} became {_short(after)}"
    for place, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            named = (
                isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) and one[:1] == other[:1]
            )
            step = f".{one[0]}" if named else f"[{place}]"
            return difference(one[1], other[1], path + step) if named else difference(one, other, path + step)
    return path


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:200]}..."
