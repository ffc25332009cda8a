"""Scope of those who may see some namespaces only: `within` of a request, which the gate writes for teams."""

import re
from collections.abc import Collection, Sequence
from typing import Any

from sluice.protocol.query import HistoryRequest, ListRequest, Object, WatchRequest, WhyRequest

from .objects import NAMESPACED_KINDS

ELSEWHERE = "(another namespace)"
"""Stands for what belongs to others, where an object's own text names it."""

FOR_ALL = frozenset({"WorkloadPriorityClass", "JobKind"})
"""Kinds of the whole cell that whoever submits a job has to know."""

_NAMED = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""What may be `namespace/name`."""


class ForbiddenError(Exception):
    """The request is about what lies outside of its namespaces."""


def check(request: ListRequest | WatchRequest | HistoryRequest | WhyRequest) -> None:
    """Refuse what can have no answer within the request's namespaces.

    Raises:
        ForbiddenError: its namespace is another's, or its kind the whole cell's.
    """
    within = request.within
    if within is None:
        return
    own = ", ".join(within)
    if isinstance(request, WhyRequest) and "/" in request.name:
        raise ForbiddenError(f"{request.name[:200]!r}: the name alone; this user sees {own} only")
    if request.namespace and request.namespace not in within:
        raise ForbiddenError(f"namespace {request.namespace[:100]!r}: this user sees {own} only")
    kind = request.kind if not isinstance(request, WhyRequest) else "Workload"
    if kind not in NAMESPACED_KINDS and kind not in FOR_ALL and kind != "Namespace":
        raise ForbiddenError(f"{kind[:100]} is of the whole cell: this user sees the namespaces {own} only")


def in_scope(kind: str, key: str, within: Sequence[str] | None) -> bool:
    """Tell whether an object is one that may be seen."""
    if within is None or kind in FOR_ALL:
        return True
    return (key if kind == "Namespace" else key.rpartition("/")[0]) in within


def hidden(value: Any, foreign: Collection[str]) -> Any:
    """Return *value* with a word in the place of each name in a *foreign* namespace.

    Who preempted a job, or is in front of it, is named in the job's own status and history.

    >>> hidden({"message": "preempted by blue/train-1 for red/x"}, {"blue"})
    {'message': 'preempted by (another namespace) for red/x'}
    """
    if isinstance(value, str):
        return _NAMED.sub(lambda m: ELSEWHERE if m[1] in foreign else m[0], value) if "/" in value else value
    if isinstance(value, dict):
        return {key: hidden(inner, foreign) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [hidden(inner, foreign) for inner in value]
    return value


def cleaned(items: Sequence[Object], foreign: Collection[str] | None) -> list[Object]:
    """Return objects or events as `hidden` shows them; as they are if *foreign* is None."""
    return list(items) if foreign is None else [hidden(item, foreign) for item in items]
