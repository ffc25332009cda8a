"""Pieces that descriptions of objects are made of."""

import time

from sluice.protocol.query import ListAnswer, Object

from .columns import dig
from .durations import age
from .errors import plural
from .table import Column, render

Lines = list[str]
_LABEL = 18


def field(label: str, value: object) -> str:
    """Return `Label:   value`, labels in one column."""
    return f"{label + ':':<{_LABEL - 1}} {value}".rstrip()


def mapping(label: str, pairs: dict[str, str]) -> Lines:
    """Return one `key=value` a line, the label before the first."""
    if not pairs:
        return [field(label, "<none>")]
    first, *rest = [f"{k}={v}" for k, v in sorted(pairs.items())]
    return [field(label, first), *(" " * _LABEL + line for line in rest)]


def indented(text: str) -> Lines:
    """Return the lines of *text*, moved to the right."""
    return [f"  {line}" for line in text.rstrip("\n").splitlines()]


def conditions(obj: Object) -> Lines:
    """Return the table of the object's conditions."""
    found = dig(obj, "status", "conditions", default=[])
    if not found:
        return []
    columns = [
        Column[Object]("TYPE", lambda c: str(c.get("type", ""))),
        Column[Object]("STATUS", lambda c: str(c.get("status", ""))),
        Column[Object]("REASON", lambda c: str(c.get("reason", ""))),
        Column[Object]("SINCE", lambda c: _since(c.get("lastTransitionTime"))),
        Column[Object]("MESSAGE", lambda c: str(c.get("message", ""))),
    ]
    return ["Conditions:", *("  " + line for line in render(found, columns))]


def omitted(history: ListAnswer, metadata: Object) -> Lines:
    """Return how many events of the object are not in its history, and where they are; [] for none."""
    if not history.omitted:
        return []
    namespace, name = metadata["namespace"], metadata["name"]
    whole = name if namespace == "default" else f"{namespace}/{name}"
    events = plural(history.omitted, "earlier event")
    return [f"({events} left out; all are in `sluice replay timeline {whole}`)"]


def _since(moment: str | None) -> str:
    return "" if not moment or moment.startswith("1970") else age(moment, time.time())
