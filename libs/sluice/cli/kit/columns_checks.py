"""Columns of the objects that are parameters of checks."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from .table import Column, Object

UNKNOWN = "<unknown>"


def _spec(obj: Object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = obj.get("spec") or {}
    return found


def budget_scope(obj: Object) -> str:
    """Return whose budget it is: `namespace`, `namespace/queue`, `cq:queue`, or both."""
    scope = _spec(obj).get("scope") or {}
    local = "/".join(part for part in (scope.get("namespace"), scope.get("localQueue")) if part)
    cluster = f"cq:{scope['clusterQueue']}" if scope.get("clusterQueue") else ""
    return ",".join(part for part in (local, cluster) if part)


def budget_limit(obj: Object) -> str:
    """Return the limits: `1000 EUR`, `200h nvidia.com/gpu`, `10h cpu on spot`."""
    limits = _spec(obj).get("limits") or {}
    cost = limits.get("cost")
    found = [] if cost is None else [f"{cost} {_spec(obj).get('currency', '')}".strip()]
    for hours in limits.get("resourceHours", ()):
        where = f" on {hours['flavor']}" if hours.get("flavor") else ""
        found.append(f"{hours['hours']}h {hours['resource']}{where}")
    return ", ".join(found)


def budget_used(obj: Object) -> str:
    """Return what is used of each limit, in the order of the limits."""
    return _each(obj, "used")


def budget_left(obj: Object) -> str:
    """Return what is neither used nor committed of each limit."""
    return _each(obj, "left")


def _each(obj: Object, word: str) -> str:
    status = obj.get("status") or {}
    if status.get("problem"):
        return UNKNOWN
    limits = status.get("limits") or ()
    return ", ".join(budget_amount(limit, word) for limit in limits) or UNKNOWN


def budget_amount(limit: Object, word: str) -> str:
    """Return one amount of a limit as it is for people: `1.50 EUR`, `2.250h cpu on spot`."""
    resource = limit.get("resource", "")
    try:
        number = f"{Decimal(limit[word]):.{3 if resource else 2}f}"
    except (KeyError, InvalidOperation):
        return UNKNOWN
    if not resource:
        return f"{number} {limit.get('unit', '')}".strip()
    where = f" on {limit['flavor']}" if limit.get("flavor") else ""
    return f"{number}h {resource}{where}"


BUDGET: tuple[Column[Object], ...] = (
    Column("SCOPE", budget_scope),
    Column("PERIOD", lambda obj: str((_spec(obj).get("period") or {}).get("unit", "Monthly"))),
    Column("LIMIT", budget_limit),
    Column("USED", budget_used),
    Column("LEFT", budget_left),
    Column("ON EXCEEDED", lambda obj: str(_spec(obj).get("onExceeded", "Hold"))),
)

WEBHOOK: tuple[Column[Object], ...] = (
    Column("URL", lambda obj: str(_spec(obj).get("url", ""))),
    Column("FAILURE POLICY", lambda obj: str(_spec(obj).get("failurePolicy", "Hold"))),
)

PROVISIONING: tuple[Column[Object], ...] = (
    Column("CLASS", lambda obj: str(_spec(obj).get("provisioningClassName", ""))),
    Column("MANAGED", lambda obj: ",".join(_spec(obj).get("managedResources", ())) or "<all>"),
)
