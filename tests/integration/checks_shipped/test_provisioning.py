"""The provisioning check against a real provider, which does as it is told, right or wrong."""

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.api.kueue import ProvisioningRequestConfigSpec
from sluice.events.base import PodSet
from sluice.sdk.checks import Pending, Ready, Rejected, Request, Retry
from sluice.sdk.checks.testing import make_request
from sluice.services.check_provisioning.app import Broker
from sluice.services.check_provisioning.config import Config, providers
from sluice.services.check_provisioning.protocol import CLASS_NAME, CONSUME
from sluice.services.common.http import Http

from .conftest import Serve

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/checks/provisioning/provider.py"
_spec = importlib.util.spec_from_file_location("example_provider", EXAMPLE)
assert _spec is not None
assert _spec.loader is not None
example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example)

GPU = "nvidia.com/gpu"
POOL = {"nodeSelector": [{"key": "pool", "valueFromProvisioningClassDetail": "pool"}]}


@pytest.fixture
def provider() -> Any:
    return example.Provider(delay_s=0.0)


@pytest.fixture
async def broker(serve: Serve, provider: Any) -> AsyncIterator[Broker]:
    url = await serve(provider.app())
    async with Http() as http:
        made = Broker(http, Config(url=url, poll_s=0.01, timeout_s=0.5))
        made.owner = "main/test"
        yield made


def request(attempt: int = 1, uid: str = "u1", **more: Any) -> Request[ProvisioningRequestConfigSpec]:
    spec = {
        "provisioningClassName": "queued",
        "managedResources": [GPU],
        "parameters": {"zone": "a"},
        "podSetUpdates": POOL,
        **more.pop("spec", {}),
    }
    pod_sets = (
        PodSet(name="head", count=1, requests={"cpu": 500}),
        PodSet(name="workers", count=4, requests={"cpu": 2000, GPU: 1, "memory": 1 << 30}),
    )
    raw = make_request(
        name="train", namespace="ml", check="prov", uid=uid, attempt=attempt, pod_sets=pod_sets, **more
    )
    return Request(raw, msgspec.convert(spec, ProvisioningRequestConfigSpec))


async def test_provisioned_capacity_tells_pods_where_to_go(broker: Broker, provider: Any) -> None:
    found = await broker.check(request())

    assert isinstance(found, Ready)
    (update,) = found.updates
    assert (update.name, update.node_selector) == ("workers", {"pool": "pool-queued"})
    assert update.annotations == {CONSUME: "train-prov-1", CLASS_NAME: "queued"}
    asked = provider.requests["ml", "train-prov-1"]["asked"]
    assert asked["podSets"] == [
        {
            "name": "workers",
            "count": 4,
            "requests": {"cpu": "2", GPU: "1", "memory": "1Gi"},
            "flavors": {"cpu": "default", GPU: "default", "memory": "default"},
            "nodeSelector": {},
        }
    ]
    assert (asked["owner"], asked["parameters"]) == ("main/test", {"zone": "a"})


async def test_it_waits_until_there_is_an_answer(broker: Broker, provider: Any) -> None:
    provider.delay_s = 3600.0
    found = await broker.check(request())
    assert found == Pending("Provisioning request 'train-prov-1': accepted, not provisioned yet", 0.01)

    provider.delay_s = 0.0
    assert isinstance(await broker.check(request()), Ready)
    assert [line for line in provider.history if line.startswith("POST")] == ["POST ml/train-prov-1 ok"]


async def test_failures_are_retried_later_and_later_then_never(broker: Broker, provider: Any) -> None:
    """base * 2^(n-1) seconds, at most the maximum, as often as the limit says (ProvisioningRequest's own)."""
    provider.faults = ["fail"] * 9
    strategy = {"backoffLimitCount": 6, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1000}
    found = [
        await broker.check(request(n + 1, retry_count=n, spec={"retryStrategy": strategy})) for n in range(7)
    ]

    assert [one.after for one in found if isinstance(one, Retry)] == [60, 120, 240, 480, 960, 1000]
    assert found[0].message == (
        "Provisioning request 'train-prov-1': Failed: no machines left; retry 1 of 6 in 60 s"
    )
    assert found[6] == Rejected(
        "Provisioning request 'train-prov-7': Failed: no machines left; given up after 6 retries"
    )


async def test_by_default_three_retries() -> None:
    strategy = ProvisioningRequestConfigSpec().retry_strategy
    assert (
        strategy.backoff_limit_count,
        strategy.backoff_base_seconds,
        strategy.backoff_max_seconds,
    ) == (3, 60, 1800)


async def test_nothing_managed_is_nothing_to_provision(broker: Broker, provider: Any) -> None:
    found = await broker.check(request(spec={"managedResources": ["example.com/fpga"]}))

    assert found == Ready(message="Nothing to provision: no managed resource is requested")
    assert provider.history == []


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("error", "Capacity provider: status 500: out of order; trying again"),
        ("hang", "Capacity provider: no answer within 0.5 s; trying again"),
        (
            "rubbish",
            "Capacity provider: the answer cannot be read: JSON is malformed: invalid character (byte 0); "
            "trying again",
        ),
    ],
)
async def test_a_provider_out_of_order_is_visible(
    broker: Broker, provider: Any, fault: str, text: str
) -> None:
    provider.faults = [fault, fault]
    one = request()
    assert await broker.check(one) == Pending(text, 0.01)
    assert await broker.check(one) == Pending(text, 0.02)
    assert isinstance(await broker.check(one), Ready)


async def test_a_missing_detail_is_visible(broker: Broker) -> None:
    update = {"nodeSelector": [{"key": "zone", "valueFromProvisioningClassDetail": "zone"}]}
    found = await broker.check(request(spec={"podSetUpdates": update}))

    assert found == Pending(
        "Provisioning request 'train-prov-1' is provisioned, but has no detail 'zone'", 0.01
    )


async def test_a_namesake_that_has_gone_is_replaced(broker: Broker, provider: Any) -> None:
    """A job that was deleted and submitted again does not get what its predecessor asked for."""
    await broker.check(request(uid="old"))
    await broker.check(request(uid="new"))

    assert provider.requests["ml", "train-prov-1"]["asked"]["workloadUid"] == "new"


@pytest.mark.parametrize("condition", ["BookingExpired", "CapacityRevoked", "Failed"])
async def test_capacity_lost_before_the_start_is_a_failure(
    broker: Broker, provider: Any, condition: str
) -> None:
    await broker.check(request())
    provider.requests["ml", "train-prov-1"]["conditions"][condition] = "sorry"

    found = await broker.watch(request(state="Ready"))
    assert found == Retry(
        60, f"Provisioning request 'train-prov-1': {condition}: sorry; retry 1 of 3 in 60 s"
    )


async def test_capacity_lost_while_it_runs_matters_if_configured(serve: Serve, provider: Any) -> None:
    url = await serve(provider.app())
    async with Http() as http:
        brokers = {
            what: Broker(http, msgspec.convert({"url": url, "poll_s": 0.01, "on_revoked": what}, Config))
            for what in ("Ignore", "Retry", "Reject")
        }
        await brokers["Ignore"].check(request())
        provider.requests["ml", "train-prov-1"]["conditions"]["CapacityRevoked"] = "sorry"
        running = request(state="Ready", admitted=True)

        assert await brokers["Ignore"].watch(running) is None
        assert isinstance(await brokers["Retry"].watch(running), Retry)
        assert isinstance(await brokers["Reject"].watch(running), Rejected)


async def test_what_is_not_needed_any_more_is_given_back(broker: Broker, provider: Any) -> None:
    await broker.check(request())
    await broker.release(request())
    await broker.release(request())

    assert provider.requests == {}


async def test_orphans_of_an_outage_are_given_back(broker: Broker, provider: Any) -> None:
    """Those of this controller whose workloads have gone; others' are none of its business."""
    await broker.check(request(1))
    await broker.check(request(2))
    broker.owner = "other/test"
    await broker.check(request(3))
    broker.owner = "main/test"

    await broker.tidy([request(2)])
    assert list(provider.requests) == [("ml", "train-prov-2"), ("ml", "train-prov-3")]


async def test_classes_may_have_providers_of_their_own() -> None:
    assert providers(Config(url="http://a/", urls="queued=http://b spot=https://c/x/")) == {
        "": "http://a",
        "queued": "http://b",
        "spot": "https://c/x",
    }
    with pytest.raises(ValueError, match="CHECK_PROVISIONING_URLS: 'queued': expected class="):
        providers(Config(urls="queued"))

    async with Http() as http:
        found = await Broker(http, Config(urls="spot=http://c")).check(request())
    assert found == Pending("No provider is configured for class 'queued'", 3600)
