"""How many bytes an object has with everything that only it leads to, as the interpreter lays them out."""

import sys
from collections import deque
from collections.abc import Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import msgspec

_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Enum)
"""Code and names of the program: there whatever the object holds."""


def deep_size(*roots: object) -> int:
    """Return the bytes of what *roots* hold, each object once; what lies in classes and code is left out.

    >>> deep_size([b"x" * 1000] * 10) < 1200
    True
    """
    seen: set[int] = set()
    stack: list[object] = list(roots)
    total = 0
    while stack:
        found = stack.pop()
        if found is None or isinstance(found, _SHARED) or id(found) in seen:
            continue
        seen.add(id(found))
        total += sys.getsizeof(found)
        if not isinstance(found, str | bytes | int | float):
            stack += _held_by(found)
    return total


def _held_by(found: object) -> list[object]:
    if isinstance(found, dict):
        # As it is stored: one that opens what is read of it would grow by being measured.
        held = [*dict.keys(found), *dict.values(found)]
    elif isinstance(found, list | tuple | set | frozenset | deque):
        held = [*found]
    elif isinstance(found, Mapping):
        held = [*found.keys(), *found.values()]
    elif isinstance(found, msgspec.Struct):
        return [getattr(found, name) for name in found.__struct_fields__]
    else:
        held = []
    held += getattr(found, "__dict__", {}).values()
    for kind in type(found).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            held.append(getattr(found, name, None))
    return held
