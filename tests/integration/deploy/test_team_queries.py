"""What a team's user sees: its own namespaces, and nothing that names another's."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sluice.log.errors import AppendRefusedError, LogUnavailableError
from sluice.sdk import AsyncClient
from tests.support.waiting import wait_until

from .secured import SecuredCell

pytestmark = pytest.mark.nats

CONFIG = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: shared}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: any, resources: [{name: cpu, nominalQuota: 1}]}]
"""
LOCAL = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: q, namespace: %s}
spec: {clusterQueue: shared}
"""
FOREIGN = "blue"


def manifest(namespace: str, name: str, priority: int) -> dict[str, Any]:
    return {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queueName": "q", "command": ["true"], "priority": priority, "resources": {"cpu": 1}},
    }


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCell]:
    directory = tmp_path_factory.mktemp("queries")
    with SecuredCell(directory) as cell:
        for team in ("red", "curious", FOREIGN):
            cell.change("add", team, "--role", "team", "-n", team)
        cell.start_services()
        (directory / "config.yaml").write_text(CONFIG + LOCAL % "red" + LOCAL % FOREIGN)
        said = cell.sluice("admin", "apply", "-f", str(directory / "config.yaml"))
        assert said.code == 0, said.err
        # red's first job is preempted by blue's; another of each waits, red's behind blue's.
        jobs = (("red", "first", 1), (FOREIGN, "theirs", 5), (FOREIGN, "waits", 3), ("red", "mine", 2))
        for team, name, priority in jobs:
            (directory / "job.json").write_text(json.dumps(manifest(team, name, priority)))
            said = cell.sluice(team, "submit", "-f", str(directory / "job.json"))
            assert said.code == 0, said.err
            job = ("get", "job", name, "-n", team, "-o", "{.status.phase}")
            wait_until(lambda job=job: cell.sluice("admin", *job).out.strip())
        assert FOREIGN in cell.sluice("admin", "why", "mine", "-n", "red").out
        assert FOREIGN in cell.sluice("admin", "events", "job", "first", "-n", "red").out
        yield cell


async def asked(cell: SecuredCell, user: str, question: str, **fields: Any) -> dict[str, Any]:
    async with AsyncClient(cell.url(user)) as client:
        connection = await client.log.connection()
        answer = await connection.request(
            f"sluice.main.query.{question}", json.dumps(fields).encode(), timeout_s=60
        )
    found: dict[str, Any] = json.loads(answer.payload)
    return found


COMMANDS = (
    ("get", "jobs", "-n", "red"),
    ("get", "jobs", "-A"),
    ("get", "jobs", "-A", "-o", "json"),
    ("get", "workloads", "-A", "-o", "yaml"),
    ("get", "localqueues", "-A"),
    ("get", "namespaces"),
    ("describe", "job", "mine", "-n", "red"),
    ("describe", "wl", "-n", "red"),
    ("events", "job", "mine", "-n", "red"),
    ("events", "job", "first", "-n", "red"),
    ("describe", "job", "first", "-n", "red"),
    ("why", "mine", "-n", "red"),
    ("why", "red/mine", "-o", "json"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_team_sees_its_own(cell: SecuredCell, command: tuple[str, ...]) -> None:
    """get, describe, events and why answer it, and name nobody else's jobs, queues or namespaces."""
    said = cell.sluice("red", *command)
    assert said.code == 0, said.err
    assert FOREIGN not in said.out + said.err
    assert "theirs" not in said.out
    if command[0] not in ("get", "events"):
        assert ("first" if "first" in command else "mine") in said.out


def test_operators_and_viewers_see_all(cell: SecuredCell) -> None:
    cell.change("add", "bob", "--role", "viewer")
    for user in ("admin", "bob"):
        out = cell.sluice(user, "get", "jobs", "-A").out
        assert "mine" in out
        assert "theirs" in out
        assert FOREIGN in cell.sluice(user, "why", "mine", "-n", "red").out


REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list", {"kind": "Job", "namespace": FOREIGN}),
    ("list", {"kind": "Workload", "namespace": FOREIGN, "within": [FOREIGN]}),
    ("list", {"kind": "ClusterQueue"}),
    ("list", {"kind": "Agent"}),
    ("list", {"kind": "Configuration"}),
    ("watch", {"kind": "Job", "since": 0, "namespace": FOREIGN}),
    ("watch", {"kind": "ClusterQueue", "since": 0}),
    ("history", {"kind": "Job", "name": "theirs", "namespace": FOREIGN}),
    ("history", {"kind": "Job", "name": "theirs", "namespace": ""}),
    ("why", {"name": "theirs", "namespace": FOREIGN}),
    ("why", {"name": f"{FOREIGN}/theirs", "namespace": "red"}),
)


@pytest.mark.parametrize(("question", "fields"), REFUSED, ids=str)
async def test_nothing_else_is_answered(cell: SecuredCell, question: str, fields: dict[str, Any]) -> None:
    """Whatever the question says of itself; the answer says what this user sees."""
    answer = await asked(cell, "red", question, **fields)
    assert not answer.get("items"), answer
    if answer.get("kind") == "Status":
        assert answer["reason"] == "Forbidden"
        assert "red" in answer["message"]


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("list", {"kind": "Job"}),
        ("list", {"kind": "Job", "name": "theirs"}),
        ("list", {"kind": "Workload", "waitingIn": "shared"}),
        ("list", {"kind": "Workload", "waitingIn": f"{FOREIGN}/q"}),
        ("list", {"kind": "Workload", "within": None}),
        ("list", {"kind": "Job", "fieldSelector": f"metadata.namespace={FOREIGN}"}),
        ("list", {"kind": "Job", "whole": True}),
        ("list", {"kind": "LocalQueue"}),
        ("list", {"kind": "Namespace"}),
        ("watch", {"kind": "Job", "since": 0, "timeoutMs": 1}),
        ("watch", {"kind": "Job", "since": 1, "timeoutMs": 1, "places": 100}),
        ("watch", {"kind": "Workload", "since": 1, "timeoutMs": 1, "places": 100}),
        ("history", {"kind": "Job", "name": "mine", "namespace": "red"}),
        ("history", {"kind": "Job", "name": "first", "namespace": "red"}),
        ("why", {"name": "mine", "namespace": "red"}),
        ("why", {"name": "first", "namespace": "red"}),
    ],
    ids=str,
)
async def test_answers_name_nobody_else(cell: SecuredCell, question: str, fields: dict[str, Any]) -> None:
    """Neither in keys nor in texts: who preempted a job, and who is in front of it, is left out."""
    answer = await asked(cell, "red", question, **fields)
    assert answer.get("status") != "Failure", answer
    assert FOREIGN not in json.dumps(answer)
    assert "theirs" not in json.dumps(answer)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"3",
        b"[" * 2000,
        b'{"kind":"Job","within":["blue"],"within":null}',
        b'{"kind":"Job","within\\u0000":1}',
    ],
)
async def test_no_bytes_widen_a_question(cell: SecuredCell, body: bytes) -> None:
    async with AsyncClient(cell.url("red")) as client:
        connection = await client.log.connection()
        answer = (await connection.request("sluice.main.query.list", body)).payload
    assert FOREIGN.encode() not in answer.replace(b'["blue"]', b"")
    assert b"theirs" not in answer


async def test_other_questions_are_not_a_teams(cell: SecuredCell) -> None:
    """Neither the cell's status and budgets, nor its configuration, nor another team's way to ask."""
    async with AsyncClient(cell.url("red")) as client:
        connection = await client.log.connection()
        for subject in ("query.status", "query.budgets", "api.apply", "party.blue.query.list", "query.x"):
            with pytest.raises((AppendRefusedError, LogUnavailableError)):
                await connection.request(f"sluice.main.{subject}", b"{}")


async def test_a_flood_of_questions_is_told_when_to_try_again(cell: SecuredCell) -> None:
    async with AsyncClient(cell.url("curious")) as client:
        connection = await client.log.connection()
        body = json.dumps({"kind": "Namespace"}).encode()
        waiting = []
        for _ in range(400):
            reply, future = connection.expect("x")
            connection.publish("sluice.main.query.list", body, reply)
            waiting.append((reply, future))
        answers = [json.loads((await connection.answer(*one, 30)).payload) for one in waiting]
    refused = [answer for answer in answers if answer.get("kind") == "Status"]
    assert refused
    assert {answer["reason"] for answer in refused} == {"TooManyRequests"}
    assert "try again in" in refused[0]["message"]
    assert refused[0]["details"]["retryAfterSeconds"] >= 1
