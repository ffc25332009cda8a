"""Teams that do not know each other on one cell: their queues, their rate and size, their ids of messages."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sluice.events.codec import encode_message
from sluice.log.errors import AppendRefusedError, LogUnavailableError
from sluice.sdk import AsyncClient, NotPublishedError
from tests.support.command import sluice
from tests.support.waiting import eventually, wait_until

from .secured import SecuredCell

pytestmark = pytest.mark.nats


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCell]:
    with SecuredCell(tmp_path_factory.mktemp("teams")) as cell:
        add = (
            "add",
            "red",
            "--role",
            "team",
            "-n",
            "red",
            "-n",
            "red-dev",
            "-q",
            "batch",
            "-q",
            "red-dev/gpu",
        )
        cell.change(*add, "--max-payload", "20000")
        cell.change("add", "blue", "--role", "team", "-n", "blue")
        cell.change("add", "slow", "--role", "team", "-n", "slow", "--rate", "4", "--burst", "3")
        cell.start_services()
        assert cell.sluice("admin", "apply", "-f", "examples/demo").code == 0
        yield cell


def manifest(namespace: str, name: str, queue: str = "batch", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, **more},
        "spec": {"queueName": queue, "command": ["true"], "resources": {"cpu": 1}},
    }


def message(data: object, message_id: str = "m", event_type: str = "JobSubmitted") -> bytes:
    return encode_message(
        message_id=message_id, source="test", event_type=event_type, subject="x", at=1, data=data
    )


async def said(
    client: AsyncClient, subject: str, payload: bytes, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return what is answered to a message that no client of ours would send."""
    connection = await client.log.connection()
    answer = await connection.request(f"sluice.main.{subject}", payload, headers or {})
    found: dict[str, Any] = json.loads(answer.payload)
    return found


async def told(cell: SecuredCell, *jobs: str) -> list[int]:
    """Return the sequences of the newest messages about jobs, 0 if there are none."""
    async with AsyncClient(cell.url("admin")) as admin:
        found = [await admin.log.last(f"job.{job}") for job in jobs]
    return [entry.seq if entry is not None else 0 for entry in found]


async def test_a_job_goes_to_the_teams_own_queues_only(cell: SecuredCell) -> None:
    """By label or by field, in the namespaces that a queue is allowed in; the refusal names the field."""
    async with AsyncClient(cell.url("red")) as red:
        await red.submit(manifest("red", "a"))
        await red.submit(manifest("red-dev", "a"))
        await red.submit(manifest("red-dev", "b", "gpu"))
        for namespace, queue in (("red", "gold"), ("red", "gpu"), ("red-dev", "gold")):
            with pytest.raises(
                NotPublishedError, match=r"spec\.queueName: Forbidden: the queue '\w+' of nam"
            ):
                await red.submit(manifest(namespace, "c", queue))
        label = {"kueue.x-k8s.io/queue-name": "gold"}
        labeled = manifest("red", "c", labels=label)
        del labeled["spec"]["queueName"]
        with pytest.raises(NotPublishedError, match=r"metadata\.labels\[kueue\.x-k8s\.io/queue-name\]: Forb"):
            await red.submit(labeled)
        # An edit is a submission, too.
        with pytest.raises(NotPublishedError, match=r"spec\.queueName: Forbidden"):
            await red.submit(manifest("red", "a", "gold"))
    seqs = await told(cell, "red.a", "red-dev.a", "red-dev.b", "red.c", "red-dev.c")
    assert [bool(seq) for seq in seqs] == [True, True, True, False, False]


def test_a_team_need_not_name_its_namespace(cell: SecuredCell) -> None:
    """Its first one is meant, unless another is named; by SLUICE_NAMESPACE, too."""
    url, _, files = cell.url("red").partition("?")
    seed, ca = (part.partition("=")[2] for part in files.split("&"))
    env = {"SLUICE_CREDENTIALS": seed, "SLUICE_CA": ca, "COLUMNS": "200"}
    job = ("--server", url, "submit", "-q", "batch", "--name", "unnamed", "--", "true")
    assert sluice(*job, env=env).code == 0
    assert sluice(*job, env=env | {"SLUICE_NAMESPACE": "red-dev"}).code == 0
    assert sluice(*job, env=env | {"SLUICE_NAMESPACE": "default"}).code != 0
    wait_until(lambda: "unnamed" in sluice("--server", url, "get", "jobs", env=env).out)
    items = cell.sluice("admin", "get", "jobs", "-A", "-o", "json").json["items"]
    found = {item["metadata"]["namespace"] for item in items if item["metadata"]["name"] == "unnamed"}
    assert found == {"red", "red-dev"}


async def test_a_queue_cannot_be_hidden(cell: SecuredCell) -> None:
    """What the slice-aggregator would read is what is judged; what cannot be read is refused at once."""
    gold, own = json.dumps(manifest("red", "h", "gold")), json.dumps(manifest("red", "h"))
    whole = message(manifest("red", "h")).decode()
    attempts = {
        # The last one of two equal keys counts.
        "twice": whole.replace('"queueName":"batch"', '"queueName":"batch","queueName":"gold"'),
        "two data": whole[:-1] + f',"data":{gold}}}',
        "two types": message(json.loads(gold), event_type="JobDeleted").decode()[:-1]
        + ',"type":"JobSubmitted"}',
        "escaped": whole.replace('"queueName":"batch"', r'"queue\u004eame":"gold"'),
        "nested": whole.replace('"data":{', '"x":' + "[" * 70 + "]" * 70 + ',"data":{'),
        "no JSON": "{",
        "no event": "{}",
        "no queue": whole.replace('"queueName":"batch",', ""),
        "unknown field": whole.replace('"queueName"', '"queuename":"gold","queueName"'),
        "data as text": whole[:-1] + f',"data":{json.dumps(gold)}}}',
        "another kind": whole.replace('"kind":"Job"', '"kind":"Workload"'),
        "null": whole[:-1] + ',"data":null}',
    }
    async with AsyncClient(cell.url("red")) as red:
        for what, payload in attempts.items():
            answer = await said(red, "job.red.h", payload.encode())
            assert answer["error"]["code"] in (400, 403), (what, answer)
            assert answer["error"]["description"], what
        assert await told(cell, "red.h") == [0]
        answer = await said(red, "job.red.h", whole.replace(own, own).encode())
        assert answer["seq"] > 0


async def test_a_message_is_as_large_as_it_may_be(cell: SecuredCell) -> None:
    """Too large is answered, with both sizes, and the connection stays."""
    async with AsyncClient(cell.url("red")) as red:
        with pytest.raises(
            NotPublishedError, match=r"the message has 3\d+ bytes, red may send 20000 at most"
        ):
            await red.submit(manifest("red", "large", annotations={"a": "x" * 30_000}))
        await red.submit(manifest("red", "large", annotations={"a": "x" * 10_000}))


async def until_refused(client: AsyncClient) -> NotPublishedError:
    for number in range(100):
        try:
            await client.submit(manifest("slow", f"h{number}"))
        except NotPublishedError as error:
            return error
    raise AssertionError("never refused")


async def test_a_rate_says_when_to_try_again(cell: SecuredCell) -> None:
    """The burst goes through, then so much a second; the client waits by itself if there is time for it."""
    async with AsyncClient(cell.url("slow"), timeout_s=0.01) as hasty:
        caught = await until_refused(hasty)
    assert "slow may send 4 messages a second; try again in" in str(caught)
    assert 0 < caught.retry_after_s <= 0.25
    begun = time.monotonic()
    async with AsyncClient(cell.url("slow")) as patient:
        done = await patient.submit_many(manifest("slow", f"p{number}") for number in range(8))
    assert time.monotonic() - begun > 1.0
    assert len({job.seq for job in done}) == 8
    assert not any(job.duplicate for job in done)


async def test_others_do_not_notice_a_flood(cell: SecuredCell) -> None:
    """While one team publishes as fast as it can, another's submissions are all taken at the first go."""
    stop = asyncio.Event()
    sent = 0

    async def flood() -> None:
        nonlocal sent
        async with AsyncClient(cell.url("slow")) as slow:
            connection = await slow.log.connection()
            payload = message(manifest("slow", "flood"))
            while not stop.is_set():
                for _ in range(200):
                    connection.publish("sluice.main.job.slow.flood", payload)
                sent += 200
                await asyncio.sleep(0)

    flooding = asyncio.create_task(flood())
    await eventually(lambda: sent > 2000)
    async with AsyncClient(cell.url("blue")) as blue:
        taken = [await blue.submit(manifest("blue", f"busy{number}")) for number in range(40)]
    stop.set()
    await flooding
    assert not any(job.duplicate for job in taken)
    assert len({job.seq for job in taken}) == 40
    assert len([seq for seq in await told(cell, "slow.flood") if seq]) == 1


async def test_ids_are_a_teams_own(cell: SecuredCell) -> None:
    """Who knows another team's id, and sends it first, in whatever form, keeps none of its messages out."""
    known = "the-id-that-blue-will-use"
    async with AsyncClient(cell.url("red")) as red, AsyncClient(cell.url("blue")) as blue:
        for stolen in (known, f"blue/{known}", f"/{known}", f"../blue/{known}"):
            first = await red.submit(manifest("red", "thief"), message_id=stolen)
            assert not first.duplicate
        second = await blue.submit(manifest("blue", "victim"), message_id=known)
        assert not second.duplicate
        again = await blue.submit(manifest("blue", "victim"), message_id=known)
        assert (again.duplicate, again.seq) == (True, second.seq)
        answer = await said(red, "job.red.a", message(manifest("red", "a")), {"Nats-Msg-Id": "x" * 300})
        assert "at most 200 characters" in answer["error"]["description"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Nats-Rollup": "all"},
        {"Nats-Rollup": "sub"},
        {"nats-rollup": "all"},
        {"Nats-TTL": "1s"},
        {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "sluice.main.config"},
        {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
        {"Nats-Expected-Last-Sequence": "1"},
        {"Nats-Expected-Last-Subject-Sequence": "0", "Nats-Expected-Last-Subject-Sequence-Subject": "x"},
    ],
    ids=str,
)
async def test_no_header_does_more_than_say_the_message(cell: SecuredCell, headers: dict[str, str]) -> None:
    async with AsyncClient(cell.url("red")) as red:
        answer = await said(red, "job.red.headers", message(manifest("red", "headers")), headers)
    assert "may not use the header" in answer["error"]["description"]
    assert await told(cell, "red.headers") == [0]


async def test_an_expectation_is_kept(cell: SecuredCell) -> None:
    """`after` is what makes an order of messages; through the gate, too."""
    async with AsyncClient(cell.url("blue")) as blue:
        job = await blue.submit(manifest("blue", "ordered"))
        connection = await blue.log.connection()
        for expected, taken in ((job.seq - 1, False), (job.seq, True)):
            headers = {"Nats-Expected-Last-Subject-Sequence": str(expected)}
            payload = message({}, event_type="JobDeleted")
            answer = await connection.request("sluice.main.job.blue.ordered", payload, headers)
            assert ("error" not in json.loads(answer.payload)) == taken


async def test_nobody_speaks_as_another_team(cell: SecuredCell) -> None:
    """Neither on its jobs' subjects nor on its way to the gate; nor of what is no job."""
    payload = message(manifest("blue", "x"))
    async with AsyncClient(cell.url("red")) as red:
        connection = await red.log.connection()
        for subject in (
            "sluice.main.job.blue.x",
            "sluice.main.party.blue.job.blue.x",
            "sluice.main.party.red.job.blue.x",
            "sluice.main.party.red.job.red.x",
            "sluice.main.gate.blue.STREAM.INFO.SLUICE_main",
            "sluice.main.scheduler",
        ):
            with pytest.raises((AppendRefusedError, LogUnavailableError)):
                await connection.request(subject, payload)
        for subject in ("job.red.x.y", "job.red.x.y.z"):
            answer = await said(red, subject, message(manifest("red", "x")))
            assert "want job.<namespace>.<name>" in answer["error"]["description"]
    assert await told(cell, "blue.x", "red.x.y") == [0, 0]


async def test_nothing_is_lost_when_the_gate_dies(cell: SecuredCell) -> None:
    """Who publishes tries again under the same id: each job is in the log, once."""
    names = [f"n{number}" for number in range(400)]
    async with AsyncClient(cell.url("blue"), timeout_s=100) as blue:
        publishing = asyncio.create_task(blue.submit_many(manifest("blue", name) for name in names))
        await asyncio.sleep(0.05)
        cell.last["gate"].kill()
        cell.last["gate"].wait()
        cell.service("gate")
        await publishing
    async with AsyncClient(cell.url("admin")) as admin:
        found = [
            entry.suffix
            async for entries in admin.log.read(1, ["job.blue.>"])
            for entry in entries
            if entry.suffix.startswith("job.blue.n")
        ]
    assert sorted(found) == sorted(f"job.blue.{name}" for name in names)


async def test_bounds_change_without_a_restart(cell: SecuredCell) -> None:
    """The gate reads the file of roles; a team that is new there has a way in, one that is gone has none."""
    cell.change("add", "late", "--role", "team", "-n", "late", "-q", "one")
    async with AsyncClient(cell.url("late"), timeout_s=1) as late:

        async def refused(queue: str) -> bool:
            try:
                await late.submit(manifest("late", "x", queue))
            except NotPublishedError as error:
                return "spec.queueName: Forbidden" in str(error)
            return False

        async def both(wrong: str, right: str) -> bool:
            return await refused(wrong) and not await refused(right)

        await eventually(lambda: both("two", "one"))
        roles = cell.auth / "public" / "roles.yaml"
        roles.write_text(roles.read_text().replace("- one", "- two"))
        await eventually(lambda: both("one", "two"))
