"""A console does not show what jobs run and say, on a real cell; by default it leaves out environments."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from sluice.local.processes import free_port
from sluice.protocol.query import ApplyRequest
from sluice.sdk import AsyncClient
from tests.integration.api.conftest import connected, ready
from tests.support.objects import job_manifest, kueue_object, local_queue, resource_group
from tests.support.system import System
from tests.support.waiting import eventually

pytestmark = pytest.mark.nats

SECRET = "hunter2"


async def submitted(system: System) -> None:
    """Have a job whose environment, command and last words are secret."""
    spec = {"resourceGroups": [resource_group({"plain": 1})], "namespaceSelector": {}}
    objects = [
        kueue_object("ResourceFlavor", "plain"),
        kueue_object("ClusterQueue", "main", spec),
        local_queue(),
    ]
    async with connected(system) as api:
        await api.apply(ApplyRequest(objects=objects))
    manifest = job_manifest("quiet", command=(f"echo-{SECRET}",))
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "PASSWORD", "value": SECRET}]
    async with AsyncClient(system.url, system.cell) as client:
        await client.submit(manifest)
        await client.finish("quiet", success=False, message=f"said {SECRET}")


async def everything(http: aiohttp.ClientSession, address: str) -> str:
    """Return all that a console has to say of the job, once it has ended."""

    async def ended() -> bool:
        try:
            async with http.get(f"{address}/jobs/default/quiet") as response:
                found = await response.json()
        except (aiohttp.ClientError, ConnectionError):
            return False
        return response.status == 200 and found["row"]["phase"] == "Failed"

    await eventually(ended)
    told = []
    for path in (
        "jobs/default/quiet",
        "jobs/default/quiet/spec",
        "jobs/default/quiet/events",
        "jobs",
        "state",
        "log",
    ):
        async with http.get(f"{address}/{path}") as response:
            assert response.status == 200, path
            told.append(await response.text())
    async with http.get(f"{address}/stream", params={"since": 1, "log": 1}) as response:
        async for line in response.content:
            if line.startswith(b"data: ") and b'"changed"' in line:
                told.append(line.decode())
                break
    return "\n".join(told)


@pytest.mark.parametrize(("redact", "command", "words"), [("env", True, True), ("all", False, False)])
async def test_secrets_are_not_shown(tmp_path: Path, redact: str, command: bool, words: bool) -> None:
    """Neither of the job, nor in the log, nor as it happens; names of variables are no secret by default."""
    with System(tmp_path) as system:
        for name in ("api", "slice_aggregator", "scheduler"):
            system.start(name)
        await ready(system, replicas=1)
        await submitted(system)
        port = str(free_port(0))
        system.start("console", {"CONSOLE_PORT": port, "CONSOLE_REDACT": redact})
        async with aiohttp.ClientSession() as http:
            said = await asyncio.wait_for(everything(http, f"http://127.0.0.1:{port}/api/v1"), 300)
    assert f'"{SECRET}"' not in said
    assert ("PASSWORD" in said) is (redact == "env")
    assert (f"echo-{SECRET}" in said) is command
    assert (f"said {SECRET}" in said) is words
