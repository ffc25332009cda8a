"""Label and field selectors as kubectl's: `a=b,c!=d,e,!f,g in (x,y),h notin (z)`."""

import re
from collections.abc import Callable, Mapping, Sequence

from sluice.protocol.query import Object

Test = Callable[[Mapping[str, str]], bool]

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s!=,()]*)$")
_EXISTS = re.compile(r"^(?P<no>!?)\s*(?P<key>[^\s!=,()]+)$")


MOST = 16 * 1024
"""Characters of a selector: every part is tried on every object."""


class SelectorError(ValueError):
    """The text is no selector."""


def parse_labels(text: str) -> list[Test]:
    """Return the tests that a label selector makes; all must hold.

    Raises:
        SelectorError: names the part that cannot be read.
    """
    return [_test(part.strip()) for part in _split(text) if part.strip()]


def _split(text: str) -> Sequence[str]:
    """Split at commas outside parentheses: behind those inside, one is closed before any is opened."""
    parts: list[str] = []
    end, closes = len(text), False
    for place in range(end - 1, -1, -1):
        match text[place]:
            case "(" | ")" as parenthesis:
                closes = parenthesis == ")"
            case "," if not closes:
                parts.append(text[place + 1 : end])
                end = place
    return [text[:end], *reversed(parts)]


def _test(part: str) -> Test:
    if found := _SET.match(part):
        key = found["key"]
        values = frozenset(value.strip() for value in found["values"].split(","))
        if found["how"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(part):
        key, value = found["key"], found["value"]
        if found["how"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        key = found["key"]
        if found["no"]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise SelectorError(
        f"unable to parse requirement {part!r}: want key=value, key!=value, key in (a,b), key or !key"
    )


class Selector:
    """Labels and fields together."""

    def __init__(self, labels: str, fields: str) -> None:
        if max(len(labels), len(fields)) > MOST:
            raise SelectorError(f"a selector may have {MOST} characters at most")
        self._labels = parse_labels(labels)
        self._fields = [_field(part.strip()) for part in fields.split(",") if part.strip()]

    @property
    def empty(self) -> bool:
        return not self._labels and not self._fields

    def matches(self, obj: Object) -> bool:
        """Tell whether the object is selected."""
        labels = obj.get("metadata", {}).get("labels", {})
        return all(test(labels) for test in self._labels) and all(test(obj) for test in self._fields)


def _field(part: str) -> Callable[[Object], bool]:
    found = _EQUAL.match(part)
    if found is None:
        raise SelectorError(f"unable to parse field selector {part!r}: want path=value or path!=value")
    path, value = found["key"].split("."), found["value"]
    wanted = found["how"] != "!="

    def test(obj: Object) -> bool:
        here: object = obj
        for name in path:
            here = here.get(name) if isinstance(here, dict) else None
        text = "" if here is None else str(here).lower() if isinstance(here, bool) else str(here)
        return (text == value) is wanted

    return test
