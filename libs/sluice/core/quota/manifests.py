"""Quota as manifests of cluster queues and cohorts say it."""

from collections.abc import Iterable

from sluice.api import kueue
from sluice.api.quantity import resource_value

from .node import FlavorResource, Quota


def quotas_of(groups: Iterable[kueue.ResourceGroup]) -> dict[FlavorResource, Quota]:
    """Return the quota by flavor and resource, in base units."""
    quotas: dict[FlavorResource, Quota] = {}
    for group in groups:
        for flavor in group.flavors:
            for resource in flavor.resources:
                name = resource.name
                quotas[flavor.name, name] = Quota(
                    nominal=resource_value(name, resource.nominal_quota),
                    borrowing_limit=_limit(name, resource.borrowing_limit),
                    lending_limit=_limit(name, resource.lending_limit),
                )
    return quotas


def _limit(resource: str, quantity: int | float | str | None) -> int | None:
    return None if quantity is None else resource_value(resource, quantity)
