"""Parameters of the shipped checks: what is wrong with them is said with field paths."""

from typing import Any

import pytest

from sluice.api.decode import DecodeError, decode_object
from sluice.api.defaults import default
from sluice.api.meta import Manifest
from sluice.api.validation import validate
from sluice.core.config.objects import KINDS, api_version, manifest_of

OWN, KUEUE = "sluice.dev/v1alpha1", "kueue.x-k8s.io/v1beta2"


def manifest(kind: str, spec: Any) -> Manifest:
    version = KUEUE if kind == "ProvisioningRequestConfig" else OWN
    value = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    return default(decode_object(value))


def texts(kind: str, spec: Any) -> list[str]:
    return [str(error) for error in validate(manifest(kind, spec))]


def budget(**more: Any) -> dict[str, Any]:
    """A good budget, with other fields."""
    good = {
        "scope": {"namespace": "team-a"},
        "limits": {"cost": "100.50"},
        "prices": [{"resource": "cpu", "perHour": 0.04}],
    }
    return {**good, **more}


@pytest.mark.parametrize(
    "spec",
    [
        budget(),
        budget(scope={"namespace": "a", "localQueue": "q"}, onExceeded="Evict", assumedSeconds=0),
        budget(scope={"clusterQueue": "q"}, period={"unit": "Weekly", "startWeekday": "Friday"}),
        budget(limits={"resourceHours": [{"resource": "nvidia.com/gpu", "hours": "1k", "flavor": "H100"}]}),
        budget(prices=[], source={"prometheus": {"url": "https://p:9090/x", "query": "sum(cost)"}}),
    ],
)
def test_good_budgets_are_taken(spec: dict[str, Any]) -> None:
    assert texts("Budget", spec) == []


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            budget(scope={}),
            "spec.scope: Required value: a namespace, a localQueue with its namespace, or a clusterQueue",
        ),
        (
            budget(scope={"localQueue": "q"}),
            "spec.scope.namespace: Required value: that of the localQueue",
        ),
        (
            budget(period={"timeZone": "Europe/Berlim"}),
            'spec.period.timeZone: Invalid value: "Europe/Berlim": must be a name of the IANA time zone '
            "database, such as Europe/Berlin",
        ),
        (
            budget(period={"timeZone": "../etc/passwd"}),
            'spec.period.timeZone: Invalid value: "../etc/passwd": must be a name of the IANA time zone '
            "database, such as Europe/Berlin",
        ),
        (
            budget(period={"startWeekday": "Friday"}),
            "spec.period.startWeekday: Forbidden: may only be set when unit is Weekly",
        ),
        (
            budget(period={"startDayOfMonth": 31}),
            "spec.period.startDayOfMonth: Invalid value: 31: must be between 1 and 28",
        ),
        (budget(limits={}), "spec.limits: Required value: a cost or resourceHours"),
        (budget(prices=[]), "spec.prices: Required value: a cost needs prices"),
        (
            budget(limits={"cost": -1}),
            "spec.limits.cost: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            budget(prices=[{"resource": "cpu", "perHour": "four"}]),
            "spec.prices[0].perHour: Invalid value: \"four\": 'four' is no quantity: want a number with an "
            "optional suffix like m, k, Gi",
        ),
        (
            budget(prices=[{"resource": "cpu", "perHour": 1}, {"resource": "cpu", "perHour": 2}]),
            'spec.prices[1]: Duplicate value: {"resource":"cpu","perHour":0}: '
            "one price per resource and flavor",
        ),
        (
            budget(source={"prometheus": {"url": "ftp://p", "query": "x"}}),
            'spec.source.prometheus.url: Invalid value: "ftp://p": must be an http:// or https:// URL with '
            "a host",
        ),
        (
            budget(
                limits={"cost": 1, "resourceHours": [{"resource": "cpu", "hours": 1}]},
                source={"prometheus": {"url": "http://p", "query": "x"}},
            ),
            "spec.limits: Forbidden: may have but one limit: the query answers with one number",
        ),
    ],
)
def test_bad_budgets_say_where(spec: dict[str, Any], wanted: str) -> None:
    assert texts("Budget", spec) == [wanted]


def test_misspelt_fields_are_named() -> None:
    with pytest.raises(DecodeError) as caught:
        manifest("Budget", budget(onExceed="Evict"))

    assert str(caught.value.errors[0]) == 'spec.onExceed: Unknown field: did you mean "onExceeded"?'


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, "spec.url: Required value"),
        (
            {"url": "http://user:secret@host/"},
            'spec.url: Invalid value: "…": must hold no user and no password',
        ),
        (
            {"url": "http://host:99999/"},
            'spec.url: Invalid value: "http://host:99999/": Port out of range 0-65535',
        ),
        (
            {"url": "http://host", "timeoutSeconds": 0},
            "spec.timeoutSeconds: Invalid value: 0: must be between 1 and 300",
        ),
        (
            {"url": "http://host", "retryStrategy": {"backoffBaseSeconds": 9, "backoffMaxSeconds": 3}},
            "spec.retryStrategy.backoffMaxSeconds: Invalid value: 3: must be at least backoffBaseSeconds, 9",
        ),
        (
            {"url": "http://host", "headers": {"Host": "x"}},
            "spec.headers[Host]: Forbidden: is set by the check",
        ),
        (
            {"url": "http://host", "headers": {"X-Team": "a\nb"}},
            'spec.headers[X-Team]: Invalid value: "a\\nb": must be printable ASCII on one line',
        ),
    ],
)
def test_bad_webhooks_say_where(spec: dict[str, Any], wanted: str) -> None:
    assert texts("WebhookCheckConfig", spec) == [wanted]


def test_good_parameters_are_taken() -> None:
    assert texts("WebhookCheckConfig", {"url": "https://host/x?y=1", "headers": {"X-A": "b"}}) == []
    update = {"key": "pool", "valueFromProvisioningClassDetail": "pool-name"}
    spec = {
        "provisioningClassName": "queued",
        "parameters": {"zone": "a"},
        "managedResources": ["nvidia.com/gpu"],
        "retryStrategy": {"backoffLimitCount": 0},
        "podSetUpdates": {"nodeSelector": [update]},
        "podSetMergePolicy": "IdenticalPodTemplates",
    }
    assert texts("ProvisioningRequestConfig", spec) == []


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, "spec.provisioningClassName: Required value"),
        (
            {"provisioningClassname": "a"},
            'spec.provisioningClassname: Unknown field: did you mean "provisioningClassName"?',
        ),
        (
            {"provisioningClassName": "a", "parameters": {"n": 1}},
            "spec.parameters[n]: Invalid value: 1: expected string, got integer; put it in quotes",
        ),
        (
            {"provisioningClassName": "a", "managedResources": ["cpu", "cpu"]},
            'spec.managedResources[1]: Duplicate value: "cpu"',
        ),
        (
            {"provisioningClassName": "a", "retryStrategy": {"backoffLimitCount": -1}},
            "spec.retryStrategy.backoffLimitCount: Invalid value: -1: must be greater than or equal to 0",
        ),
    ],
)
def test_bad_provisioning_configs_say_where(spec: dict[str, Any], wanted: str) -> None:
    assert texts("ProvisioningRequestConfig", spec) == [wanted]


def test_stored_objects_read_back_as_they_were_applied() -> None:
    """What the log holds of the new kinds decodes by its kind, and says what it is."""
    found = manifest("Budget", budget())
    plain = manifest_of("Budget", found)  # type: ignore[arg-type]

    assert plain["apiVersion"] == api_version("Budget") == OWN
    assert isinstance(decode_object(plain), KINDS["Budget"])
    assert decode_object(plain) == found
