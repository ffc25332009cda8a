"""LimitRange and RuntimeClass, with the rules and messages of Kubernetes' API server."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from sluice.api.core_v1 import LimitRange, LimitRangeItem
from sluice.api.errors import FieldError, duplicate, forbidden, invalid, required
from sluice.api.node_v1 import RuntimeClass
from sluice.api.quantity import Quantity, QuantityError, parse

from . import names, quotas

CONTAINER = "Container"
POD = "Pod"
PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
_KNOWN = (CONTAINER, POD, PERSISTENT_VOLUME_CLAIM)

_AMOUNTS = (
    ("max", "max"),
    ("min", "min"),
    ("default", "default"),
    ("defaultRequest", "default_request"),
    ("maxLimitRequestRatio", "max_limit_request_ratio"),
)
"""As the manifest spells them, and as attributes."""

_Exact = dict[str, Decimal]


def check_limit_range(limit_range: LimitRange) -> list[FieldError]:
    """Check each type's amounts by themselves and against each other."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, item in enumerate(limit_range.spec.limits):
        field = f"spec.limits[{i}]"
        found += _check_type(f"{field}.type", item.type)
        if item.type in seen:
            found.append(duplicate(f"{field}.type", item.type))
        seen.add(item.type)
        amounts = list(_check_amounts(field, item))
        # What is no quantity cannot be compared.
        found += amounts or _check_item(field, item)
    return found


def _check_type(field: str, name: str) -> list[FieldError]:
    if not name:
        return [required(field)]
    if "/" not in name and name not in _KNOWN:
        return [invalid(field, name, "must be a standard limit type or fully qualified")]
    return names.check_name(field, name, names.qualified_name(name))


def _check_amounts(field: str, item: LimitRangeItem) -> Iterator[FieldError]:
    for word, name in _AMOUNTS:
        amounts: Mapping[str, Quantity] = getattr(item, name)
        for resource, quantity in sorted(amounts.items()):
            place = f"{field}.{word}[{resource}]"
            yield from names.check_name(place, resource, names.qualified_name(resource))
            yield from quotas.check_quantity(place, quantity)


def _check_item(field: str, item: LimitRangeItem) -> Iterator[FieldError]:
    most, least, default, request, ratio = (
        {name: parse(quantity) for name, quantity in getattr(item, name_).items()} for _, name_ in _AMOUNTS
    )
    if item.type == POD:
        for word, amounts in (("default", default), ("defaultRequest", request)):
            if amounts:
                yield forbidden(f"{field}.{word}", "may not be specified when `type` is 'Pod'")
    if item.type == PERSISTENT_VOLUME_CLAIM and "storage" not in least and "storage" not in most:
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{field}.limits", text)
    for resource in sorted({*most, *least, *default, *request, *ratio}):
        yield from _ordered(field, resource, item, least, request, default, most)
        yield from _check_ratio(field, resource, item, ratio, least, most)
        if _is_whole(resource) and resource in default and resource in request:
            shown = item.default[resource], item.default_request[resource]
            if default[resource] != request[resource]:
                text = f"default value {shown[0]} must equal to defaultRequest value {shown[1]} in {resource}"
                yield invalid(f"{field}.default[{resource}]", str(shown[0]), text)


def _ordered(
    field: str,
    resource: str,
    item: LimitRangeItem,
    least: _Exact,
    request: _Exact,
    default: _Exact,
    most: _Exact,
) -> Iterator[FieldError]:
    """Yield what is greater than what it must not exceed: min <= defaultRequest <= default <= max."""
    rising = (
        ("min", "min", least, item.min),
        ("defaultRequest", "default request", request, item.default_request),
        ("default", "default", default, item.default),
        ("max", "max", most, item.max),
    )
    for i, (low_word, low_name, lows, low_texts) in enumerate(rising):
        for high_word, high_name, highs, high_texts in rising[i + 1 :]:
            if resource not in lows or resource not in highs or lows[resource] <= highs[resource]:
                continue
            # Named where people gave a wish, not where they drew the line.
            word = high_word if low_word == "min" and high_word != "max" else low_word
            value = (high_texts if word == high_word else low_texts)[resource]
            if (low_word, high_word) == ("defaultRequest", "default"):
                high_name = "default limit"
            less, more = low_texts[resource], high_texts[resource]
            text = f"{low_name} value {less} is greater than {high_name} value {more}"
            yield invalid(f"{field}.{word}[{resource}]", str(value), text)


def _check_ratio(
    field: str, resource: str, item: LimitRangeItem, ratio: _Exact, least: _Exact, most: _Exact
) -> Iterator[FieldError]:
    found = ratio.get(resource)
    if found is None:
        return
    place, shown = f"{field}.maxLimitRequestRatio[{resource}]", str(item.max_limit_request_ratio[resource])
    if found < 1:
        yield invalid(place, shown, f"ratio {shown} is less than 1")
    low, high = least.get(resource), most.get(resource)
    if low and high is not None and found > high / low:
        yield invalid(place, shown, f"ratio {shown} is greater than max/min = {float(high / low):f}")


def _is_whole(resource: str) -> bool:
    """Is it a resource of which nobody may use more than was requested? Extended ones and huge pages are."""
    prefix, slash, _ = resource.rpartition("/")
    extended = bool(slash) and prefix != "kubernetes.io" and not prefix.endswith(".kubernetes.io")
    return extended or resource.startswith("hugepages-")


def check_runtime_class(runtime_class: RuntimeClass) -> list[FieldError]:
    """Check a RuntimeClass: whether there is such a handler only the nodes know."""
    found: list[FieldError] = []
    if not runtime_class.handler:
        found.append(required("handler"))
    else:
        found += names.check_name("handler", runtime_class.handler, names.dns_label(runtime_class.handler))
    fixed = runtime_class.overhead.pod_fixed if runtime_class.overhead is not None else {}
    for resource, quantity in sorted(fixed.items()):
        place = f"overhead.podFixed[{resource}]"
        found += names.check_name(place, resource, names.qualified_name(resource))
        found += quotas.check_quantity(place, quantity)
    return found


def above_limits(
    field: str, requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]
) -> list[FieldError]:
    """Return which of a container's *requests* are above its *limits*; *field* is that of its requests."""
    found: list[FieldError] = []
    for resource in sorted(requests.keys() & limits.keys()):
        asked, most = requests[resource], limits[resource]
        try:
            above = asked != most and parse(asked) > parse(most)
        except QuantityError:
            continue  # reported where the quantity itself is checked
        if above:
            text = f"must be less than or equal to {resource} limit of {most}"
            found.append(invalid(field, str(asked), text))
    return found
