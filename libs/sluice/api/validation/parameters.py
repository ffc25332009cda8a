"""Parameters of the checks that Sluice ships: Budget, WebhookCheckConfig, ProvisioningRequestConfig."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace

from sluice.api import _walk
from sluice.api.check_parameters import Budget, BudgetPeriod, BudgetSpec, PrometheusSource, WebhookCheckConfig
from sluice.api.errors import FieldError, duplicate, forbidden, invalid, required
from sluice.api.kueue import ProvisioningRequestConfig, ProvisioningRequestConfigSpec, RetryStrategy
from sluice.api.quantity import Quantity, QuantityError, parse

from . import names
from .quotas import NOT_NEGATIVE, check_quantity, too_long

MAX_SECONDS = 366 * 24 * 3600
MAX_RESPONSE_BYTES = 8 * 1024 * 1024
MAX_TIMEOUT_SECONDS = 300
LAST_START_DAY = 28
MAX_PARAMETERS = 100

_is_token = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_OWN_HEADERS = frozenset(
    {"host", "content-type", "content-length", "idempotency-key", "sluice-signature", "transfer-encoding"}
)


# Budget


def check_budget(budget: Budget) -> list[FieldError]:
    """Check a new or changed Budget; queues and flavors that it names need not exist (yet)."""
    spec = budget.spec
    found = [*_check_scope(spec), *_check_period(spec.period), *_check_limits(spec), *_check_prices(spec)]
    for word, seconds in (
        ("assumedSeconds", spec.assumed_seconds),
        ("releaseQuotaAfterSeconds", spec.release_quota_after_seconds),
        ("retryAfterSeconds", spec.retry_after_seconds),
    ):
        if seconds is not None:
            found += _between(f"spec.{word}", seconds, 0, MAX_SECONDS)
    if spec.source.prometheus is not None:
        found += _check_prometheus(spec, spec.source.prometheus)
    return found


def _check_scope(spec: BudgetSpec) -> Iterator[FieldError]:
    scope = spec.scope
    if not (scope.namespace or scope.local_queue or scope.cluster_queue):
        yield required("spec.scope", "a namespace, a localQueue with its namespace, or a clusterQueue")
    if scope.local_queue and not scope.namespace:
        yield required("spec.scope.namespace", "that of the localQueue")
    if scope.namespace:
        yield from names.check_name("spec.scope.namespace", scope.namespace, names.dns_label(scope.namespace))
    for word, name in (("localQueue", scope.local_queue), ("clusterQueue", scope.cluster_queue)):
        if name:
            yield from names.check_name(f"spec.scope.{word}", name, names.dns_subdomain(name))


def _check_period(period: BudgetPeriod) -> Iterator[FieldError]:
    try:
        ZoneInfo(period.time_zone)
    except (ValueError, OSError, LookupError):
        text = "must be a name of the IANA time zone database, such as Europe/Berlin"
        yield invalid("spec.period.timeZone", period.time_zone, text)
    if period.start_weekday is not None and period.unit != "Weekly":
        yield forbidden("spec.period.startWeekday", "may only be set when unit is Weekly")
    if period.start_day_of_month is not None:
        if period.unit != "Monthly":
            yield forbidden("spec.period.startDayOfMonth", "may only be set when unit is Monthly")
        # Every month has these days.
        yield from _between("spec.period.startDayOfMonth", period.start_day_of_month, 1, LAST_START_DAY)


def _check_limits(spec: BudgetSpec) -> Iterator[FieldError]:
    limits, field = spec.limits, "spec.limits"
    if limits.cost is None and not limits.resource_hours:
        yield required(field, "a cost or resourceHours")
    if limits.cost is not None:
        yield from _check_amount(f"{field}.cost", limits.cost)
        if not spec.prices and spec.source.prometheus is None:
            yield required("spec.prices", "a cost needs prices")
    seen: dict[tuple[str, str], None] = {}
    for i, hours in enumerate(limits.resource_hours):
        place = f"{field}.resourceHours[{i}]"
        yield from _check_resource(place, hours.resource, hours.flavor)
        yield from _check_amount(f"{place}.hours", hours.hours)
        if (hours.resource, hours.flavor) in seen:
            yield duplicate(place, replace(hours, hours=0), "one limit per resource and flavor")
        seen[hours.resource, hours.flavor] = None


def _check_prices(spec: BudgetSpec) -> Iterator[FieldError]:
    seen: dict[tuple[str, str], None] = {}
    for i, price in enumerate(spec.prices):
        place = f"spec.prices[{i}]"
        yield from _check_resource(place, price.resource, price.flavor)
        yield from _check_amount(f"{place}.perHour", price.per_hour)
        if (price.resource, price.flavor) in seen:
            yield duplicate(place, replace(price, per_hour=0), "one price per resource and flavor")
        seen[price.resource, price.flavor] = None


def _check_resource(field: str, resource: str, flavor: str) -> Iterator[FieldError]:
    yield from names.check_name(f"{field}.resource", resource, names.qualified_name(resource))
    if flavor:
        yield from names.check_name(f"{field}.flavor", flavor, names.flavor_name(flavor))


def _check_amount(field: str, amount: Quantity) -> list[FieldError]:
    if too_long(amount):
        return check_quantity(field, amount)
    try:
        value = parse(amount)
    except QuantityError as error:
        return [invalid(field, amount, str(error))]
    return [invalid(field, amount, NOT_NEGATIVE)] if value < 0 else []


def _check_prometheus(spec: BudgetSpec, source: PrometheusSource) -> Iterator[FieldError]:
    field = "spec.source.prometheus"
    yield from _check_url(f"{field}.url", source.url)
    if not source.query:
        yield required(f"{field}.query")
    yield from _between(f"{field}.intervalSeconds", source.interval_seconds, 1, MAX_SECONDS)
    yield from _between(f"{field}.timeoutSeconds", source.timeout_seconds, 1, MAX_TIMEOUT_SECONDS)
    if (spec.limits.cost is not None) + len(spec.limits.resource_hours) > 1:
        text = "may have but one limit: the query answers with one number"
        yield forbidden("spec.limits", text)


# WebhookCheckConfig


def check_webhook_config(config: WebhookCheckConfig) -> list[FieldError]:
    """Check a new or changed WebhookCheckConfig."""
    spec = config.spec
    found = _check_url("spec.url", spec.url)
    if spec.cancel_url:
        found += _check_url("spec.cancelUrl", spec.cancel_url)
    found += _between("spec.timeoutSeconds", spec.timeout_seconds, 1, MAX_TIMEOUT_SECONDS)
    found += check_retry_strategy("spec.retryStrategy", spec.retry_strategy)
    found += _between("spec.pollSeconds", spec.poll_seconds, 1, MAX_SECONDS)
    if spec.recheck_seconds is not None:
        found += _between("spec.recheckSeconds", spec.recheck_seconds, 1, MAX_SECONDS)
    if spec.signing_secret:
        messages = names.dns_subdomain(spec.signing_secret)
        found += names.check_name("spec.signingSecret", spec.signing_secret, messages)
    for name, value in spec.headers.items():
        field = f"spec.headers[{name}]"
        if not _is_token(name):
            found.append(invalid(field, name, "must be a header's name"))
        elif name.lower() in _OWN_HEADERS:
            found.append(forbidden(field, "is set by the check"))
        if any(not (char == "\t" or " " <= char < "\x7f") for char in value):
            found.append(invalid(field, value, "must be printable ASCII on one line"))
    return found + _between("spec.maxResponseBytes", spec.max_response_bytes, 1, MAX_RESPONSE_BYTES)


# ProvisioningRequestConfig


def check_provisioning_config(config: ProvisioningRequestConfig) -> list[FieldError]:
    """Check shape and values of a new or changed ProvisioningRequestConfig."""
    try:
        spec = msgspec.convert(config.spec, ProvisioningRequestConfigSpec)
    except msgspec.ValidationError:
        return [
            replace(error, field=f"spec.{error.field}" if error.field else "spec")
            for error in _walk.shape_errors(config.spec, ProvisioningRequestConfigSpec)
        ]
    field = "spec.provisioningClassName"
    name = spec.provisioning_class_name
    found = names.check_name(field, name, names.dns_subdomain(name)) if name else [required(field)]
    if len(spec.parameters) > MAX_PARAMETERS:
        text = f"must have at most {MAX_PARAMETERS} items"
        found.append(invalid("spec.parameters", len(spec.parameters), text))
    seen: dict[str, None] = {}
    for i, resource in enumerate(spec.managed_resources):
        place = f"spec.managedResources[{i}]"
        found += names.check_name(place, resource, names.qualified_name(resource))
        if resource in seen:
            found.append(duplicate(place, resource))
        seen[resource] = None
    found += check_retry_strategy("spec.retryStrategy", spec.retry_strategy)
    keys: dict[str, None] = {}
    for i, update in enumerate(spec.pod_set_updates.node_selector if spec.pod_set_updates else ()):
        place = f"spec.podSetUpdates.nodeSelector[{i}]"
        found += names.check_label_key(f"{place}.key", update.key)
        if not update.value_from_provisioning_class_detail:
            found.append(required(f"{place}.valueFromProvisioningClassDetail"))
        if update.key in keys:
            found.append(duplicate(f"{place}.key", update.key))
        keys[update.key] = None
    return found


# Shared


def check_retry_strategy(field: str, strategy: RetryStrategy) -> list[FieldError]:
    """Check that numbers are not negative and the first wait is not above the longest."""
    found: list[FieldError] = []
    base, most = strategy.backoff_base_seconds, strategy.backoff_max_seconds
    for word, number in (
        ("backoffLimitCount", strategy.backoff_limit_count),
        ("backoffBaseSeconds", base),
        ("backoffMaxSeconds", most),
    ):
        if number < 0:
            found.append(invalid(f"{field}.{word}", number, NOT_NEGATIVE))
    if base > most >= 0:
        text = f"must be at least backoffBaseSeconds, {base}"
        found.append(invalid(f"{field}.backoffMaxSeconds", most, text))
    return found


def _between(field: str, number: int, least: int, most: int) -> list[FieldError]:
    if least <= number <= most:
        return []
    return [invalid(field, number, f"must be between {least} and {most}")]


def _check_url(field: str, url: str) -> list[FieldError]:
    if not url:
        return [required(field)]
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return [invalid(field, url, str(error))]
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return [invalid(field, url, "must be an http:// or https:// URL with a host")]
    if parts.username is not None or parts.password is not None:
        # It would be in the log, for everybody who may read it.
        return [invalid(field, "…", "must hold no user and no password")]
    return []
