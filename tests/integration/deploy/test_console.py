"""The console as it is deployed: a viewer's key, a token for people, and a key of its own to act with."""

import asyncio
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from sluice.local.processes import free_port
from sluice.rights.roles import User
from tests.support.waiting import eventually

from .secured import ROOT, SecuredCell

DEPLOY = ROOT / "deploy"
(CONSOLE,) = yaml.safe_load((DEPLOY / "console.compose.yml").read_text())["services"].values()
WORKER, SERVICE = yaml.safe_load_all((DEPLOY / "kubernetes/console/console.yaml").read_text())
TOKEN = "a-token-of-some-length"
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec: {namespaceSelector: {}}
"""


def test_manifests_agree() -> None:
    """Compose file and Kubernetes manifest start the same, with a viewer's key and the token of people."""
    pod = WORKER["spec"]["template"]["spec"]
    (one,) = pod["containers"]
    assert one["command"] == CONSOLE["command"] == ["python", "-m", "sluice.services.console"]
    env = {variable["name"]: variable["value"] for variable in one["env"] if "value" in variable}
    hosts = env.pop("CONSOLE_HOSTS")
    assert env == {k: v for k, v in CONSOLE["environment"].items() if k.startswith("CONSOLE_")}
    assert env["CONSOLE_ACTIONS"] == "0", "who only looks is the default"
    assert hosts.split(",")[0] == SERVICE["metadata"]["name"]
    sources = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"]}
    seen = {mount["mountPath"]: sources[mount["name"]] for mount in one["volumeMounts"]}
    assert seen == {"/etc/sluice/key": "key-console", "/etc/sluice/console": "console-token"}
    auth = "${SLUICE_AUTH:-./deploy/auth}"
    assert CONSOLE["volumes"] == [
        f"{auth}/keys/console:/etc/sluice/key:ro",
        f"{auth}/console:/etc/sluice/console:ro",
    ]
    assert Path(env["CONSOLE_TOKEN_FILE"]).parent.as_posix() in seen
    kustomization = (DEPLOY / "kustomization.yaml").read_text()
    assert "# - kubernetes/console/console.yaml" in kustomization
    for name, files in (
        ("key-console", "auth/keys/console/key.nk, auth/keys/console/ca.pem"),
        ("console-token", "auth/console/token"),
    ):
        assert re.search(rf"# - name: {name}\n# .*\n#   files: \[{re.escape(files)}\]", kustomization)
    for text in (DEPLOY / "console.compose.yml", DEPLOY / "kubernetes/console/console.yaml"):
        assert "auth add console --role viewer" in text.read_text()


async def asked(http: aiohttp.ClientSession, method: str, url: str, **more: Any) -> tuple[int, Any]:
    try:
        async with http.request(method, url, **more) as response:
            return response.status, await response.json()
    except (aiohttp.ClientError, ConnectionError):
        return 0, None


async def looked_and_acted(acts: str, looks: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    stop = {"action": "stop", "name": "q"}
    async with aiohttp.ClientSession(headers=headers) as http:
        for address in (acts, looks):

            async def there(address: str = address) -> bool:
                return (await asked(http, "GET", f"{address}/queues/q"))[0] == 200

            await eventually(there)
            status, found = await asked(http, "GET", f"{address}/log", params={"writer": "config"})
            assert (status, found["items"][0]["type"]) == (200, "ObjectApplied")
        for address, wanted in ((looks, 403), (acts, 200)):
            _, who = await asked(http, "GET", f"{address}/whoami")
            token = {"X-Sluice-Token": who["actionToken"]}
            status, found = await asked(http, "POST", f"{address}/actions", json=stop, headers=token)
            assert status == wanted, found
        async with aiohttp.ClientSession() as stranger:
            assert (await asked(stranger, "GET", f"{acts}/queues"))[0] == 401


@pytest.mark.nats
def test_it_looks_as_a_viewer_and_acts_as_an_operator(tmp_path: Path) -> None:
    """With the rights of deployed users; whose key may not act, does not, whatever the console is told."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "q.yaml").write_text(QUEUE)
    with SecuredCell(tmp_path / "cell", users=[User(name="console", role="viewer")]) as cell:
        cell.start_services()
        assert cell.sluice("admin", "apply", "-f", str(tmp_path / "q.yaml")).code == 0
        addresses = []
        for key in ("admin", "console"):
            port = str(free_port(0))
            cell.service(
                "console",
                CONSOLE_PORT=port,
                CONSOLE_AUTH="token",
                CONSOLE_TOKEN_FILE=str(tmp_path / "token"),
                CONSOLE_ACTIONS="1",
                SLUICE_CREDENTIALS=str(cell.auth / "keys/console/key.nk"),
                SLUICE_CA=str(cell.auth / "keys/console/ca.pem"),
                SLUICE_NATS_URL=f"tls://127.0.0.1:{cell.port}",
                CONSOLE_ACTIONS_CREDENTIALS=str(cell.auth / f"keys/{key}/key.nk"),
            )
            addresses.append(f"http://127.0.0.1:{port}/api/v1")
        asyncio.run(looked_and_acted(*addresses))
        queue = cell.sluice("viewer", "get", "cq", "q", "-o", "yaml").out
        assert "stopPolicy: Hold" in queue
