"""The users of `deploy/nats`: each can do its work, and nobody can write what is another's to write."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.log.errors import AppendRefusedError
from sluice.sdk import AsyncClient
from tests.support.waiting import PATIENCE_S, wait_until

from .secured import USERS, SecuredCell

pytestmark = pytest.mark.nats

OWN = {
    "scheduler": "scheduler",
    "slice_aggregator": "slices",
    "variant_controller": "variants",
    "admission_check": "checks",
    "dispatcher": "dispatch",
    "api": "config",
}
COMMITS = ("config", "slices", "variants", "scheduler", "checks", "dispatch")


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCell]:
    with SecuredCell(tmp_path_factory.mktemp("secured")) as cell:
        # Snapshots at once, so that their permissions are needed, too.
        cell.start_services(SLUICE_SNAPSHOT_EVENTS="5")
        applied = cell.sluice("admin", "apply", "-f", "examples/demo")
        assert applied.code == 0, applied.err
        yield cell


def test_a_job_runs_from_end_to_end(cell: SecuredCell, tmp_path: Path) -> None:
    """With every part logged in as itself, a job is applied for, admitted, run by an agent, and seen."""
    before = len(cell.violations())
    agent = cell.service("agent", AGENT_NAME="agent-0", SLUICE_DATA_DIR=str(tmp_path))
    submitted = cell.sluice(
        "admin", "submit", "-q", "vision", "--name", "hello", "--wait", "--timeout", "150s", "--", "true"
    )
    assert submitted.code == 0, submitted.out + submitted.err
    seen = cell.sluice("viewer", "get", "jobs")
    assert "Succeeded" in seen.out, seen.out + seen.err
    assert "WorkloadFinished" in cell.sluice("viewer", "log", "tail", "--no-follow").out
    assert cell.probe("agent", "--agent", AGENT_NAME="agent-0").returncode == 0
    agent.terminate()
    assert agent.wait(PATIENCE_S) == 0
    wait_until(lambda: "snapshot stored" in (cell.directory / "scheduler.log").read_text())
    assert cell.violations()[before:] == []


async def test_upstream_publishes_jobs_and_follows_them(cell: SecuredCell) -> None:
    """An upstream system may publish job events, follow dispatch and wait."""
    manifest = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "from-upstream"},
        "spec": {"queueName": "nowhere", "command": ["true"], "resources": {"cpu": 1}},
    }
    async with AsyncClient(cell.url("upstream")) as upstream:
        job = await upstream.submit(manifest)
        assert (await upstream.wait(job, "Pending", timeout_s=PATIENCE_S)).phase == "Pending"
        await upstream.delete(job)


@pytest.mark.parametrize("user", [user for user in USERS if user != "keeper"])
async def test_nobody_writes_commits_of_others(cell: SecuredCell, user: str) -> None:
    """Law 3 on the server: one writer per subject; but the keeper puts a log back from its archive."""
    async with AsyncClient(cell.url(user)) as client:
        for subject in COMMITS:
            if subject != OWN.get(user):
                with pytest.raises(AppendRefusedError, match="Permissions Violation"):
                    await client.log.append(subject, b"{}")


async def test_viewers_change_nothing(cell: SecuredCell) -> None:
    """Who may only look cannot submit a job either."""
    async with AsyncClient(cell.url("viewer")) as client:
        with pytest.raises(AppendRefusedError, match="Permissions Violation"):
            await client.log.append("job.default.x", b"{}")


def test_a_denied_request_is_told_as_such(cell: SecuredCell) -> None:
    """The server refuses beside the request; nobody should have to wait for a timeout to learn nothing."""
    refused = cell.sluice("viewer", "apply", "-f", "examples/demo")
    assert refused.code == 1
    assert "does not let this user ask sluice.main.api.apply" in refused.err


def test_probe_tells_a_service_that_does_not_answer(cell: SecuredCell) -> None:
    """Alive is about this container's replica; ready is more; a server that is away is nobody's death."""
    assert cell.probe("scheduler").stdout.startswith("sluice-scheduler: leader")
    gone = cell.probe("scheduler", SLUICE_INSTANCE="another")
    assert (gone.returncode, gone.stdout) == (1, "the service of this container does not answer\n")
    away = "nats://127.0.0.1:1"
    assert cell.probe("scheduler", SLUICE_NATS_URL=away).returncode == 0
    assert cell.probe("scheduler", "--ready", SLUICE_NATS_URL=away).returncode == 1
    assert cell.probe("agent", "--agent", AGENT_NAME="nobody").returncode == 1


def test_a_gate_may_be_away(cell: SecuredCell, tmp_path: Path) -> None:
    """Who reads goes on without it; who begins to read waits, and begins when there is one again."""
    cell.service("agent", AGENT_NAME="agent-1", SLUICE_DATA_DIR=str(tmp_path), SLUICE_INSTANCE="agent-1")
    wait_until(lambda: cell.probe("agent", "--agent", AGENT_NAME="agent-1").returncode == 0)
    cell.last["gate"].kill()
    cell.last["gate"].wait()
    phase = ("get", "job", "patient", "-o", "{.status.phase}")
    try:
        submitted = cell.sluice("admin", "submit", "-q", "vision", "--name", "patient", "--", "true")
        assert submitted.code == 0, submitted.err
        wait_until(lambda: cell.sluice("admin", *phase).out.strip() in ("Admitted", "Running"))
    finally:
        # The cell is the module's: the tests that come after this one need a gate, whatever became of it.
        cell.service("gate")
        wait_until(lambda: cell.probe("gate", "--ready").returncode == 0)
    wait_until(lambda: cell.sluice("admin", *phase).out.strip() == "Succeeded")
