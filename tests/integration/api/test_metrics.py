"""`/metrics` of a running cell: api service and console say the same of the same message of the log."""

from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sluice.local.processes import free_port
from sluice.protocol.query import ApplyRequest
from tests.integration.api.conftest import connected, ready
from tests.support.objects import kueue_object, resource_group
from tests.support.system import System
from tests.support.waiting import eventually

pytestmark = pytest.mark.nats

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def read(address: str) -> Samples:
    """Return what Prometheus would read there, {} where nobody answers yet."""
    try:
        async with aiohttp.ClientSession() as http, http.get(address) as response:
            if response.status != 200:
                return {}
            text = await response.text()
    except (aiohttp.ClientError, ConnectionError):
        return {}
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_replicas_and_console_say_the_same(tmp_path: Path) -> None:
    ports = [free_port(0) for _ in range(3)]
    with System(tmp_path) as system:
        for port in ports[:2]:
            system.start("api", {"API_HTTP": f"127.0.0.1:{port}"})
        system.start("console", {"CONSOLE_PORT": str(ports[2])})
        await ready(system, replicas=2)
        async with connected(system) as api:
            queue = kueue_object("ClusterQueue", "team", {"resourceGroups": [resource_group({"spot": 8})]})
            end = (await api.apply(ApplyRequest(objects=[queue]))).seq
        pages = [f"http://127.0.0.1:{port}/metrics" for port in ports]

        async def are_there() -> bool:
            return all([(await read(page)).get(("sluice_folded_upto", ())) == end for page in pages])

        await eventually(are_there)
        found = [await read(page) for page in pages]
        assert found[0] == found[1] == found[2]
        labels = (("cluster_queue", "team"), ("cohort", ""), ("flavor", "spot"), ("resource", "cpu"))
        assert found[0]["sluice_cluster_queue_nominal_quota", labels] == 8
        renamed: Samples = {}

        async def is_told() -> bool:
            renamed.update(await read(f"{pages[2]}?names=kueue"))
            return bool(renamed)

        await eventually(is_told)
        assert renamed["kueue_cluster_queue_nominal_quota", labels] == 8
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{ports[0]}/healthz") as said:
            assert await said.json() == {"upto": end, "lag": 0}
