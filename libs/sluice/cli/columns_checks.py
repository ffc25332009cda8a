"""Columns of the objects that are parameters of checks."""

from collections.abc import Mapping
from typing import Any

from .table import Column, Object


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


def _unit(obj: Object) -> str:
    return str((_spec(obj).get("period") or {}).get("unit", "Monthly"))


BUDGET: tuple[Column[Object], ...] = (
    Column("SCOPE", budget_scope),
    Column("PERIOD", _unit),
    Column("LIMIT", budget_limit),
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
