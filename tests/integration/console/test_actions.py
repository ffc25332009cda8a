"""Actions over HTTP on a real cell: first what one would do, then that it is done, by those who may only."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from sluice.local.processes import free_port
from sluice.protocol.query import ApplyRequest
from sluice.sdk import AsyncClient
from tests.integration.api.conftest import connected, ready
from tests.support.objects import (
    job_manifest,
    kueue_object,
    local_queue,
    priority_class,
    resource_group,
)
from tests.support.system import System
from tests.support.waiting import eventually

pytestmark = pytest.mark.nats

Addresses = tuple[System, str, str]
TOKEN = "a-token-of-some-length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Console:
    """A console that may act, and one that may not, as programs ask them."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http, self._address = http, f"{address}/api/v1"

    async def get(self, path: str, status: int = 200) -> Any:
        async with self._http.get(f"{self._address}{path}", headers=BEARER) as response:
            assert response.status == status, await response.text()
            return await response.json()

    async def post(self, path: str, body: dict[str, Any], headers: dict[str, str], status: int = 200) -> Any:
        async with self._http.post(f"{self._address}{path}", json=body, headers=BEARER | headers) as response:
            assert response.status == status, await response.text()
            return await response.json()

    async def token(self) -> dict[str, str]:
        return {"X-Sluice-Token": (await self.get("/whoami"))["actionToken"]}

    async def preview(self, **asked: str) -> Any:
        return await self.post("/actions/preview", asked, await self.token())

    async def act(self, **asked: str) -> Any:
        return await self.post("/actions", asked, await self.token())

    async def job(self, name: str) -> Any:
        return (await self.get(f"/jobs/default/{name}"))["row"]

    async def phase(self, name: str, wanted: str) -> None:
        async def so() -> bool:
            async with self._http.get(f"{self._address}/jobs/default/{name}", headers=BEARER) as response:
                return response.status == 200 and (await response.json())["row"]["phase"] == wanted

        await eventually(so)

    async def answers(self) -> bool:
        try:
            async with self._http.get(f"{self._address}/queues", headers=BEARER) as response:
                return response.status == 200
        except (aiohttp.ClientError, ConnectionError):
            return False


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """A cell, and the addresses of a console that acts and of one that does not."""
    directory: Path = tmp_path_factory.mktemp("actions")
    secret = directory / "token"
    secret.write_text(TOKEN)
    with System(directory) as system:
        for name in ("api", "scheduler", "slice_aggregator"):
            system.start(name)
        asyncio.run(ready(system, replicas=1))
        found = []
        for acts in ("1", "0"):
            port = str(free_port(0))
            environment = {"CONSOLE_PORT": port, "CONSOLE_AUTH": "token", "CONSOLE_TOKEN_FILE": str(secret)}
            system.start("console", environment | {"CONSOLE_ACTIONS": acts})
            found.append(f"http://127.0.0.1:{port}")
        yield system, *found


@pytest.fixture
async def console(addresses: Addresses) -> AsyncIterator[Console]:
    async with aiohttp.ClientSession() as http:
        found = Console(http, addresses[1])
        await eventually(found.answers)
        yield found


async def filled(system: System, console: Console, name: str) -> None:
    """Have a queue of this name with room for one of its two jobs, `NAME-a` and `NAME-b`, which waits."""
    spec = {"resourceGroups": [resource_group({"plain": 1})], "namespaceSelector": {}}
    objects = [
        kueue_object("ResourceFlavor", "plain", {}),
        priority_class("high", 1000),
        kueue_object("ClusterQueue", name, spec),
        local_queue(name, name),
    ]
    async with connected(system) as api:
        answer = await api.apply(ApplyRequest(objects=objects))
    assert [result.status for result in answer.results] == [None] * 4
    async with AsyncClient(system.url, system.cell) as client:
        await client.submit(job_manifest(f"{name}-a", queue=name))
        await console.phase(f"{name}-a", "Admitted")
        await client.submit(job_manifest(f"{name}-b", queue=name))
        await console.phase(f"{name}-b", "Queued")


def effects(preview: Any) -> list[tuple[str, str]]:
    return [(effect["what"], effect["job"]) for effect in preview["effects"]]


async def test_quota_is_shown_first_and_then_set(addresses: Addresses, console: Console) -> None:
    """The preview changes nothing, and says who would be admitted; then that one is, and the log says why."""
    await filled(addresses[0], console, "wider")
    asked = {"action": "quota", "name": "wider", "flavor": "plain", "resource": "cpu", "value": "2"}
    shown = await console.preview(**asked)
    assert effects(shown) == [("admit", "default/wider-b")]
    assert shown["command"].startswith("sluice apply -f - <<'END'\napiVersion: kueue")
    assert "2 instead of 1" in shown["summary"]
    assert (await console.job("wider-b"))["phase"] == "Queued"

    done = await console.act(**asked, version=shown["version"])
    assert done["outcome"] == "configured"
    await console.phase("wider-b", "Admitted")
    came = (await console.get(f"/log/{done['seq']}"))["consequences"]
    assert "Admitted" in {one["event"]["type"] for one in came}
    again = await console.act(**asked)
    assert (again["outcome"], again["seq"]) == ("unchanged", 0)


async def test_what_was_not_shown_is_not_done(addresses: Addresses, console: Console) -> None:
    """Between preview and action somebody else changes the queue: nothing of theirs is undone."""
    await filled(addresses[0], console, "raced")
    asked = {"action": "stop", "name": "raced"}
    shown = await console.preview(**asked)
    await console.act(action="quota", name="raced", flavor="plain", resource="cpu", value="3")
    body = asked | {"version": shown["version"]}
    refused = await console.post("/actions", body, await console.token(), status=409)
    assert refused["error"]["code"] == "Conflict"
    found = (await console.get("/objects/ClusterQueue/raced"))["object"]["spec"]
    assert found["stopPolicy"] != "Hold"
    assert found["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "3"


async def test_a_queue_is_stopped_and_resumed(addresses: Addresses, console: Console) -> None:
    """HoldAndDrain evicts who runs; the preview says whom."""
    await filled(addresses[0], console, "held")
    shown = await console.preview(action="stop", name="held", value="HoldAndDrain")
    assert effects(shown) == [("evict", "default/held-a")]
    await console.act(action="stop", name="held")
    assert (await console.get("/queues/held"))["queue"]["stopPolicy"] == "Hold"
    await console.act(action="resume", name="held")
    assert not (await console.get("/queues/held"))["queue"].get("stopPolicy")


async def test_jobs_are_put_off_and_back_and_deleted(addresses: Addresses, console: Console) -> None:
    await filled(addresses[0], console, "jobs")
    shown = await console.preview(action="deactivate", name="jobs-a", message="broken data")
    assert ("admit", "default/jobs-b") in effects(shown)
    assert shown["command"] == "sluice job deactivate jobs-a -m 'broken data'"
    await console.act(action="deactivate", name="jobs-b", message="broken data")
    await console.phase("jobs-b", "Suspended")
    await console.act(action="activate", name="jobs-b")
    await console.phase("jobs-b", "Queued")
    done = await console.act(action="delete", name="jobs-b")
    said = (await console.get(f"/log/{done['seq']}"))["events"][0]
    assert (said["type"], said["writer"]) == ("JobDeleted", "job")


async def test_a_priority_is_the_manifest_submitted_again(addresses: Addresses, console: Console) -> None:
    await filled(addresses[0], console, "first")
    asked = {"action": "priority", "name": "first-b", "value": "high"}
    shown = await console.preview(**asked)
    assert "--priority-class high" in shown["command"]
    await console.act(**asked, version=shown["version"])

    async def higher() -> bool:
        return bool((await console.job("first-b")).get("priority") == 1000)

    await eventually(higher)
    spec = (await console.get("/jobs/default/first-b/spec"))["manifest"]
    assert spec["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "first"


async def test_only_pages_of_the_console_act(console: Console) -> None:
    """A token that only they can read, JSON, and the same origin; all three are asked for."""
    token, body = await console.token(), {"action": "stop", "name": "nobody"}
    for path in ("/actions", "/actions/preview"):
        for headers in (
            {},
            {"X-Sluice-Token": "guessed"},
            token | {"Origin": "http://elsewhere.example"},
            token | {"Sec-Fetch-Site": "cross-site"},
            token | {"Content-Type": "text/plain"},
        ):
            refused = await console.post(path, body, headers, status=403)
            assert refused["error"]["code"] == "Forbidden", headers
        missing = await console.post(path, body, token, status=404)
        assert "nobody" in missing["error"]["message"]


async def test_a_console_that_only_shows_does_nothing(addresses: Addresses) -> None:
    """Read-only is the default: there is no token, and no action."""
    async with aiohttp.ClientSession() as http:
        console = Console(http, addresses[2])
        await eventually(console.answers)
        said = await console.get("/whoami")
        assert (said["readOnly"], said["actions"], said["actionToken"]) == (True, [], "")
        refused = await console.post("/actions", {"action": "stop", "name": "x"}, {}, status=403)
        assert "only shows" in refused["error"]["message"]
