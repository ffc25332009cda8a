"""Resource groups, as ClusterQueues and Cohorts have them, and fair-sharing weights."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from sluice.api.errors import FieldError, duplicate, invalid, plain, required, too_many
from sluice.api.kueue import FairSharing, FlavorQuotas, ResourceGroup
from sluice.api.quantity import MAX_LENGTH, Quantity, QuantityError, parse

from . import names

NOT_NEGATIVE = "must be greater than or equal to 0"
MAX_GROUPS = 16
MAX_FLAVORS = 64
MAX_RESOURCES = 64
MAX_TOTAL = 256
MAX_COMBINATIONS = 512
_LEAST_WEIGHT = Decimal("1e-9")


def check_resource_groups(
    field: str,
    groups: Sequence[ResourceGroup],
    *,
    has_parent: bool,
    parent_word: str,
    lending_at_most_nominal: bool,
) -> list[FieldError]:
    """Check quotas. Without a parent (cohort) there is nobody to borrow from or to lend to."""
    found: list[FieldError] = []
    resources: dict[str, None] = {}
    flavors: dict[str, None] = {}
    for i, group in enumerate(groups):
        for j, name in enumerate(group.covered_resources):
            place = f"{field}[{i}].coveredResources[{j}]"
            found += names.check_name(place, name, names.qualified_name(name))
            if name in resources:
                found.append(duplicate(place, name))
            resources[name] = None
        for j, flavor in enumerate(group.flavors):
            place = f"{field}[{i}].flavors[{j}]"
            found += _check_flavor(
                place,
                flavor,
                group.covered_resources,
                missing_parent="" if has_parent else parent_word,
                lending_at_most_nominal=lending_at_most_nominal,
            )
            if flavor.name in flavors:
                found.append(duplicate(f"{place}.name", flavor.name))
            flavors[flavor.name] = None
    return found


def _check_flavor(
    field: str,
    flavor: FlavorQuotas,
    covered: Sequence[str],
    *,
    missing_parent: str,
    lending_at_most_nominal: bool,
) -> Iterator[FieldError]:
    for i, quota in enumerate(flavor.resources[: len(covered)]):
        place = f"{field}.resources[{i}]"
        if quota.name != covered[i]:
            yield invalid(f"{place}.name", quota.name, "must match the name in coveredResources")
        yield from check_quantity(f"{place}.nominalQuota", quota.nominal_quota)
        if quota.borrowing_limit is not None:
            limit = f"{place}.borrowingLimit"
            yield from _check_has_parent(limit, quota.borrowing_limit, missing_parent)
            yield from check_quantity(limit, quota.borrowing_limit)
        if quota.lending_limit is not None:
            limit = f"{place}.lendingLimit"
            yield from check_quantity(limit, quota.lending_limit)
            yield from _check_has_parent(limit, quota.lending_limit, missing_parent)
            if lending_at_most_nominal and _exceeds(quota.lending_limit, quota.nominal_quota):
                text = "must be less than or equal to the nominalQuota"
                yield invalid(limit, str(quota.lending_limit), text)


def _check_has_parent(field: str, limit: Quantity, missing_parent: str) -> list[FieldError]:
    if not missing_parent:
        return []
    return [invalid(field, str(limit), f"must be nil when {missing_parent} is empty")]


def _exceeds(quantity: Quantity, limit: Quantity) -> bool:
    try:
        return parse(quantity) > parse(limit)
    except QuantityError:
        return False  # reported where the quantity itself is checked


def too_long(quantity: Quantity) -> bool:
    """Tell whether a quantity has more characters than one may have."""
    return isinstance(quantity, str) and len(quantity) > MAX_LENGTH


def check_quantity(field: str, quantity: Quantity) -> list[FieldError]:
    """Check that *quantity* is one, not negative, and not endless."""
    if too_long(quantity):
        cut = f"{str(quantity)[:MAX_LENGTH]}..."
        return [invalid(field, cut, f"must be no more than {MAX_LENGTH} characters")]
    try:
        value = parse(quantity)
    except QuantityError:
        text = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        return [invalid(field, str(quantity), text)]
    return [invalid(field, str(quantity), NOT_NEGATIVE)] if value < 0 else []


def check_fair_sharing(field: str, fair_sharing: FairSharing | None) -> list[FieldError]:
    """Check the weight: not negative, and not so small that it would count as nothing."""
    if fair_sharing is None or fair_sharing.weight is None:
        return []
    found = check_quantity(field, fair_sharing.weight)
    if not found and 0 < parse(fair_sharing.weight) <= _LEAST_WEIGHT:
        found.append(invalid(field, str(fair_sharing.weight), "When not 0, weight must be > 10e-9"))
    return found


def check_totals(field: str, groups: Sequence[ResourceGroup]) -> list[FieldError]:
    """Check the size limits over all groups."""
    found: list[FieldError] = []
    flavors = sum(len(group.flavors) for group in groups)
    if flavors > MAX_TOTAL:
        text = f"total number of flavors across all resourceGroups must be ≤ {MAX_TOTAL}, got {flavors}"
        found.append(invalid(field, flavors, text))
    resources = sum(len(group.covered_resources) for group in groups)
    if resources > MAX_TOTAL:
        text = (
            f"total number of covered resources across all resourceGroups must be ≤ {MAX_TOTAL}, "
            f"got {resources}"
        )
        found.append(invalid(field, resources, text))
    for i, group in enumerate(groups):
        pairs = sum(len(flavor.resources) for flavor in group.flavors)
        if pairs > MAX_COMBINATIONS:
            text = (
                "number of flavor-resource combinations in a resourceGroup must be "
                f"≤ {MAX_COMBINATIONS}, got {pairs}"
            )
            found.append(invalid(f"{field}[{i}]", pairs, text))
    return found


def schema_resource_groups(field: str, groups: Sequence[ResourceGroup]) -> list[FieldError]:
    """Check what the CRD's schema says: sizes, required names, the same resources in every flavor."""
    found: list[FieldError] = []
    if len(groups) > MAX_GROUPS:
        found.append(too_many(field, len(groups), MAX_GROUPS))
    for i, group in enumerate(groups):
        place = f"{field}[{i}]"
        if not group.covered_resources:
            found.append(required(f"{place}.coveredResources", "must name at least one resource"))
        if not group.flavors:
            found.append(required(f"{place}.flavors", "must name at least one flavor"))
        if len(group.covered_resources) > MAX_RESOURCES:
            found.append(too_many(f"{place}.coveredResources", len(group.covered_resources), MAX_RESOURCES))
        if len(group.flavors) > MAX_FLAVORS:
            found.append(too_many(f"{place}.flavors", len(group.flavors), MAX_FLAVORS))
        for j, flavor in enumerate(group.flavors):
            found += _schema_flavor(f"{place}.flavors[{j}]", flavor, group.covered_resources)
    return found


def _schema_flavor(field: str, flavor: FlavorQuotas, covered: Sequence[str]) -> Iterator[FieldError]:
    yield from names.check_name(f"{field}.name", flavor.name, names.flavor_name(flavor.name))
    if len(flavor.resources) != len(covered):
        text = "flavors must have the same number of resources as the coveredResources"
        yield invalid(f"{field}.resources", plain(len(flavor.resources)), text)
