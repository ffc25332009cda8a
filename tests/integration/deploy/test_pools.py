"""Pools of executors that do not trust each other: each runs its own namespaces' jobs, and no others."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.events.codec import encode_message
from sluice.log.errors import AppendRefusedError, EventLogError, LogUnavailableError
from sluice.log.nats.kv import Bucket
from sluice.sdk import AsyncClient
from tests.support.waiting import wait_until

from .secured import SecuredCell
from .test_team_queries import CONFIG, LOCAL

pytestmark = pytest.mark.nats

OTHER = "blue"


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCell]:
    directory = tmp_path_factory.mktemp("pools")
    with SecuredCell(directory) as cell:
        for name in ("red", OTHER):
            cell.change("add", f"{name}_pool", "--role", "executor", "-n", name)
        cell.start_services()
        (directory / "config.yaml").write_text(CONFIG + LOCAL % "red" + LOCAL % OTHER)
        assert cell.sluice("admin", "apply", "-f", str(directory / "config.yaml")).code == 0
        yield cell


def agent(cell: SecuredCell, directory: Path, pool: str) -> None:
    cell.service(
        "agent",
        AGENT_NAME=f"{pool}_pool-1",
        AGENT_NAMESPACES=pool,
        SLUICE_NATS_URL=cell.url(f"{pool}_pool"),
        SLUICE_DATA_DIR=str(directory / pool),
    )


def submitted(cell: SecuredCell, namespace: str, name: str) -> None:
    said = cell.sluice("admin", "submit", "-n", namespace, "-q", "q", "--name", name, "--", "true")
    assert said.code == 0, said.err


def phase(cell: SecuredCell, namespace: str, name: str) -> str:
    return cell.sluice("admin", "get", "job", name, "-n", namespace, "-o", "{.status.phase}").out.strip()


def test_each_pool_runs_its_own_jobs(cell: SecuredCell, tmp_path: Path) -> None:
    """A job of a namespace without its pool waits; the other pool's agents neither see nor take it."""
    agent(cell, tmp_path, "red")
    submitted(cell, "red", "one")
    wait_until(lambda: phase(cell, "red", "one") == "Succeeded")
    submitted(cell, OTHER, "one")
    wait_until(lambda: phase(cell, OTHER, "one") == "Admitted")
    agent(cell, tmp_path, OTHER)
    wait_until(lambda: phase(cell, OTHER, "one") == "Succeeded")
    executors = [
        cell.sluice("admin", "get", "job", "one", "-n", key, "-o", "{.status.executor}").out.strip()
        for key in ("red", OTHER)
    ]
    assert executors == ["red_pool-1", f"{OTHER}_pool-1"]


def message(event_type: str, **data: Any) -> bytes:
    return encode_message(
        message_id=secrets.token_hex(4), source="t", event_type=event_type, subject="x", at=1, data=data
    )


async def test_a_pool_reports_on_its_own_jobs(cell: SecuredCell) -> None:
    """And says of them what executors say: it neither submits, nor deletes, nor deactivates any."""
    async with AsyncClient(cell.url("red_pool")) as pool:
        connection = await pool.log.connection()
        for event_type in ("JobFinished", "JobPodsReady", "JobStopped"):
            for subject in ("sluice.main.job.blue.x", "sluice.main.party.blue_pool.job.blue.x"):
                with pytest.raises((AppendRefusedError, LogUnavailableError)):
                    await connection.request(subject, message(event_type))
        for event_type in ("JobSubmitted", "JobDeleted", "JobScaled", "JobActivated", "JobDeactivated", "x"):
            answer = await connection.request("sluice.main.job.red.x", message(event_type))
            said = json.loads(answer.payload)["error"]["description"]
            assert f"red_pool may not say {event_type} of a job" in said


async def test_a_pool_claims_its_own_jobs(cell: SecuredCell) -> None:
    async with AsyncClient(cell.url("red_pool"), timeout_s=2) as pool:
        claims = Bucket(pool.log, "claims")
        assert await claims.put("red.mine.u.1", b"{}")
        for attempt in (
            lambda: claims.put("blue.theirs.u.1", b"{}"),
            lambda: claims.get("blue.theirs.u.1"),
            lambda: claims.remove("blue.theirs.u.1"),
            claims.keys,
        ):
            with pytest.raises(EventLogError):
                await attempt()


async def test_a_pool_keeps_its_own_agents_alive(cell: SecuredCell) -> None:
    """Under another's name it would keep a dead agent's jobs from being queued again, or end a live one's."""
    async with AsyncClient(cell.url("red_pool")) as red, AsyncClient(cell.url("blue_pool")) as blue:
        own, theirs = Bucket(red.log, "heartbeats", memory=True), Bucket(blue.log, "heartbeats", memory=True)
        await own.put("agent.red=5Fpool-9", b"{}", ttl_s=60)
        await theirs.put("agent.blue=5Fpool-9", b"{}", ttl_s=60)
        for name in ("blue=5Fpool-9", "red=5Fpool-", "red", "red=5Fpool9", "x"):
            with pytest.raises(EventLogError, match="names of red_pool's agents begin with"):
                await own.put(f"agent.{name}", b"{}", ttl_s=60)
            with pytest.raises(EventLogError):
                await own.put(f"controller.{name}", b"{}", ttl_s=60)
        with pytest.raises(EventLogError, match="its own agents only"):
            await own.remove("agent.blue=5Fpool-9")
        assert await theirs.get("agent.blue=5Fpool-9")
        await own.remove("agent.red=5Fpool-9")
        assert await own.get("agent.red=5Fpool-9") is None


async def test_a_pool_reads_its_own_manifests(cell: SecuredCell) -> None:
    """Neither a message by its number, nor a consumer, shows another namespace's."""
    async with AsyncClient(cell.url("admin")) as admin:
        theirs = await admin.submit(
            {
                "apiVersion": "sluice.dev/v1alpha1",
                "kind": "Job",
                "metadata": {"name": "secret", "namespace": OTHER},
                "spec": {"queueName": "nowhere", "command": ["true"], "resources": {"cpu": 1}},
            }
        )
    async with AsyncClient(cell.url("red_pool")) as pool:
        for job in ("", f"{OTHER}/secret"):
            with pytest.raises(EventLogError, match="may not read"):
                await pool.manifest(theirs.seq, job)
        with pytest.raises(LookupError):
            await pool.manifest(theirs.seq, "red/secret")
        connection = await pool.log.connection()
        for filters in ([">"], ["sluice.main.job.>"], ["sluice.main.job.*.one"], ["sluice.main.scheduler"]):
            name = secrets.token_hex(16)
            body = {
                "stream_name": "SLUICE_main",
                "config": {"name": name, "ack_policy": "none", "filter_subjects": filters},
            }
            answer = await connection.ask(f"$JS.API.CONSUMER.CREATE.SLUICE_main.{name}", body)
            assert "may not read" in answer["error"]["description"]
