r"""Paths of fields as kubectl's jsonpath and custom-columns have them, without filters and functions.

`.status.conditions[0].type`, `.spec.groups[*].name`, `.metadata.labels['a.b/c']`, `.metadata.labels.a\.b/c`;
the dot in front may be missing, and braces may stand around the whole. `.` is the whole object.
"""

import re
from typing import Any

import msgspec

from .errors import CliError

Step = str | int | None
"""A name, the number of an item, or all items."""

_STEP = re.compile(
    r"""
    \[(?P<item>-?\d+)\]
    | (?P<all>\[\*\]|\.\*)
    | \[(?P<quote>['"])(?P<quoted>(?:(?!(?P=quote)).)*)(?P=quote)\]
    | \.(?P<name>(?:\\.|[^\\.\[\]{}*?])+)
    """,
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")


def steps_of(path: str) -> tuple[Step, ...]:
    """Return the steps of a path.

    >>> steps_of(".spec.groups[*].name"), steps_of("metadata.labels.a\\\\.b/c")
    (('spec', 'groups', None, 'name'), ('metadata', 'labels', 'a.b/c'))

    Raises:
        CliError: it cannot be read.
    """
    text = path[1:-1] if path.startswith("{") and path.endswith("}") else path
    if text == ".":
        return ()
    if text and text[0] not in ".[":
        text = f".{text}"
    found: list[Step] = []
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise CliError(
                f"{path}: cannot be read from {text[at:]!r} on",
                hint="Names with dots between them, [0], [*], ['name'], e.g. .status.conditions[0].type",
                exit_code=2,
            )
        found.append(_step(step))
        at = step.end()
    return tuple(found)


def _step(found: re.Match[str]) -> Step:
    if found["item"] is not None:
        return int(found["item"])
    if found["all"] is not None:
        return None
    return found["quoted"] if found["quoted"] is not None else _ESCAPED.sub(r"\1", found["name"])


def values_at(value: Any, steps: tuple[Step, ...]) -> list[Any]:
    """Return what stands there: several values where a step means all items, none where there is nothing."""
    here = [value]
    for step in steps:
        here = [found for each in here for found in _taken(each, step)]
    return [each for each in here if each is not None]


def _taken(value: Any, step: Step) -> list[Any]:
    match value:
        case dict():
            if step is None:
                return list(value.values())
            return [value[step]] if step in value else []
        case list():
            if step is None:
                return value
            return [value[step]] if isinstance(step, int) and -len(value) <= step < len(value) else []
        case _:
            return []


def text_of(value: Any) -> str:
    """Return a value as text: itself, or as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
