"""`sluice auth`: keys instead of passwords, TLS with an authority of its own, changes without a restart."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from sluice.cli.commands.auth.place import AuthPlace
from sluice.log.errors import EventLogError
from sluice.log.nats.nkeys import new_seed, public_of
from sluice.sdk import AsyncClient, NotPublishedError
from tests.support.command import sluice
from tests.support.node import installed, why_not
from tests.support.waiting import eventually, wait_until

from .secured import USERS, SecuredCell

pytestmark = pytest.mark.nats


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCell]:
    with SecuredCell(tmp_path_factory.mktemp("keyed")) as cell:
        cell.start_services()
        assert cell.sluice("admin", "apply", "-f", "examples/demo").code == 0
        yield cell


def manifest(name: str, namespace: str) -> dict[str, object]:
    return {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queueName": "vision", "command": ["true"], "resources": {"cpu": 1}},
    }


def test_a_job_runs_with_keys_and_tls(cell: SecuredCell, tmp_path: Path) -> None:
    """Every part logs in with its key, over TLS, and nobody has a password."""
    agent = cell.service("agent", AGENT_NAME="agent-0", SLUICE_DATA_DIR=str(tmp_path))
    job = ("submit", "-q", "vision", "--name", "keyed", "--wait", "--timeout", "150s", "--", "true")
    said = cell.sluice("admin", *job)
    assert said.code == 0, said.out + said.err
    assert "Succeeded" in cell.sluice("admin", "get", "jobs").out
    agent.terminate()
    assert agent.wait(60) == 0
    assert "password" not in (cell.auth / "public" / "users.conf").read_text()
    # Teams that try what they may not are other tests' matter. When other tests change users, the server
    # forgets who may answer what is under way (`_R_.`); who has asked asks once more.
    assert [
        line for line in cell.violations() if line.partition(":")[0] in USERS and " _R_." not in line
    ] == []


def test_credentials_come_from_the_environment(cell: SecuredCell) -> None:
    """Paths in SLUICE_CREDENTIALS and SLUICE_CA; nothing secret is in them, nor on a command line."""
    url, _, files = cell.url("admin").partition("?")
    seed, ca = (part.partition("=")[2] for part in files.split("&"))
    env = {"COLUMNS": "200", "SLUICE_CREDENTIALS": seed, "SLUICE_CA": ca}
    assert "vision" in sluice("--server", url, "get", "clusterqueues", env=env).out
    assert sluice("--server", url, "get", "clusterqueues", env=env | {"SLUICE_CA": ""}).code != 0
    assert sluice("--server", url, "get", "clusterqueues", env=env | {"SLUICE_CREDENTIALS": ""}).code != 0


async def test_a_team_speaks_of_its_own_jobs_only(cell: SecuredCell) -> None:
    """It neither submits nor ends another team's job, and reads nothing; it is there without a restart."""
    cell.change("add", "red", "--role", "team", "-n", "red", "--max-payload", "100000")
    cell.change("add", "blue", "--role", "team", "-n", "blue", "-n", "blue-dev", "--follows")
    async with AsyncClient(cell.url("red"), timeout_s=2) as red, AsyncClient(cell.url("blue")) as blue:
        job = await blue.submit(manifest("b", "blue-dev"))
        await blue.wait(job, "Pending", timeout_s=100)
        await red.submit(manifest("r", "red"))
        with pytest.raises(NotPublishedError, match="Permissions Violation"):
            await red.submit(manifest("r", "blue"))
        for end in (red.finish, red.delete, red.stopped):
            with pytest.raises(NotPublishedError, match="Permissions Violation"):
                await end("blue-dev/b")
        with pytest.raises(EventLogError):
            await red.log.end()
        assert (await blue.log.end()) > 0
        big = manifest("big", "red") | {
            "metadata": {"name": "big", "namespace": "red", "annotations": {"a": "x" * 200_000}}
        }
        with pytest.raises(NotPublishedError, match="red may send 100000 at most"):
            await red.submit(big)


async def test_keys_change_while_everybody_works(cell: SecuredCell) -> None:
    """The new key counts at once, the old one until it is revoked; who holds the file goes on by itself."""
    cell.change("add", "green", "--role", "team", "-n", "green")
    seed = cell.auth / "keys" / "green" / "key.nk"
    before = seed.read_text()
    old = cell.directory / "old.nk"
    old.write_text(before)
    old_url = cell.url("green").replace(str(seed), str(old))
    async with AsyncClient(cell.url("green")) as working, AsyncClient(old_url, timeout_s=2) as left:
        await working.submit(manifest("g1", "green"))
        await left.submit(manifest("g2", "green"))
        cell.change("rotate", "green")
        assert seed.read_text() != before
        await left.submit(manifest("g3", "green"))
        cell.change("revoke", "green", "--old")
        await working.submit(manifest("g4", "green"))

        async def shut_out() -> bool:
            try:
                await left.submit(manifest("g5", "green"))
            except NotPublishedError:
                return True
            return False

        await eventually(shut_out)
        cell.change("revoke", "green")
    async with AsyncClient(cell.url("admin")) as admin:
        assert await admin.log.end() > 0
    assert not seed.exists()


def test_services_change_keys_without_a_restart(cell: SecuredCell) -> None:
    """The scheduler and the api are given new keys, lose their connections, and are back by themselves."""
    for name in ("scheduler", "api", "gate"):
        cell.change("rotate", name)
        cell.change("revoke", name, "--old")
    cell.await_services()
    said = cell.sluice("admin", "submit", "-q", "vision", "--name", "after", "--", "true")
    assert said.code == 0, said.err
    job = ("get", "job", "after", "-o", "{.status.phase}")
    wait_until(lambda: cell.sluice("admin", *job).out.strip() == "Admitted")


def test_a_key_may_come_before_the_server_knows_it(cell: SecuredCell) -> None:
    """Files reach programs and server at different times: who is refused tries again until it is let in."""
    place = AuthPlace(cell.auth)
    roles = place.load()
    users = ("scheduler", "slice_aggregator", "gate", "api")
    for user in [one for one in roles.users if one.name in users]:
        roles = roles.put(place.with_key(user))
    before = cell.server_log.read_text().count("authentication error")
    unknown = {name: [public_of(new_seed())] for name in users}
    kept = [structs.replace(one, keys=unknown.get(one.name, one.keys)) for one in roles.users]
    place.save(structs.replace(roles, users=kept))
    cell.change("reload")
    wait_until(lambda: cell.server_log.read_text().count("authentication error") > before + 20)
    place.save(roles)
    cell.change("reload")
    cell.await_services()
    said = cell.sluice("admin", "submit", "-q", "vision", "--name", "refused", "--", "true")
    assert said.code == 0, said.err
    job = ("get", "job", "refused", "-o", "{.status.phase}")
    wait_until(lambda: cell.sluice("admin", *job).out.strip() == "Admitted")


def test_somebody_watches_the_files(cell: SecuredCell) -> None:
    """Beside a server, as on Kubernetes: a user who is new there is let in, one who is taken out is not."""
    pid_file = cell.directory / "nats.pid"
    pid_file.write_text(str(cell.processes[0].pid))
    words = ("auth", "reload", "--watch", "--dir", str(cell.auth), "--server-pid", str(pid_file))
    log = cell.directory / "reload.log"
    watching = cell.start([sys.executable, "-m", "sluice.cli.main", *words], dict(os.environ), log)
    # What it compares with is what it has found at its start.
    wait_until(lambda: "watching" in log.read_text())
    sluice("auth", "add", "eve", "--role", "viewer", "--dir", str(cell.auth)).ok()
    wait_until(lambda: cell.sluice("eve", "get", "clusterqueues").code == 0)
    url = cell.url("eve").replace("/eve/", "/copied/")
    shutil.copytree(cell.auth / "keys" / "eve", cell.auth / "keys" / "copied")
    assert sluice("--server", url, "get", "clusterqueues").code == 0
    sluice("auth", "revoke", "eve", "--dir", str(cell.auth)).ok()
    wait_until(lambda: sluice("--server", url, "get", "clusterqueues").code != 0)
    watching.terminate()
    watching.wait()


def test_a_controller_in_javascript_has_a_key(
    cell: SecuredCell, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """It logs in with it, over TLS, by the same two variables as everybody."""
    if reason := why_not():
        pytest.skip(reason)
    assert pytestconfig.cache is not None
    project, name = tmp_path / "keyed", "example.com/keyed"
    cell.change("add", "keyed", "--role", "controller", "--controller", name)
    made = cell.sluice(
        "admin", "check", "new", "keyed", "--language", "javascript", "--directory", str(project)
    )
    assert made.code == 0, made.err
    installed(project, Path(pytestconfig.cache.mkdir("javascript")))
    assert cell.sluice("admin", "apply", "-f", str(project / "manifests.yaml")).code == 0
    url, _, files = cell.url("keyed").partition("?")
    seed, ca = (part.partition("=")[2] for part in files.split("&"))
    env = {"SLUICE_NATS_URL": url, "SLUICE_CREDENTIALS": seed, "SLUICE_CA": ca}
    with (cell.directory / "keyed.log").open("ab") as log:
        controller = subprocess.Popen(
            ["node", "index.js"], cwd=project, stdout=log, stderr=log, env={**os.environ, **env}
        )
    cell.processes.append(controller)
    assert cell.sluice("admin", "submit", "-f", str(project / "job.yaml")).code == 0
    job = ("get", "job", "keyed-job", "-o", "{.status.phase}")
    wait_until(lambda: cell.sluice("admin", *job).out.strip() == "Admitted")
    controller.terminate()
    assert controller.wait(60) == 0


def test_the_server_gets_another_certificate(cell: SecuredCell) -> None:
    """Of the same authority, so that nobody has to be told."""
    before = (cell.auth / "server" / "server.pem").read_bytes()
    cell.change("rotate", "tls")
    assert (cell.auth / "server" / "server.pem").read_bytes() != before
    wait_until(lambda: cell.sluice("admin", "get", "clusterqueues").code == 0)


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
def test_secrets_are_their_owners(cell: SecuredCell) -> None:
    secrets = [*cell.auth.glob("keys/*/key.nk"), *cell.auth.glob("*/*.key"), *cell.auth.glob("keys/*")]
    assert [path for path in secrets if os.stat(path).st_mode & 0o077] == []
    assert len(secrets) > 18
