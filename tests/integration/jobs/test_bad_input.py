"""Bad input on a real cell: each is answered in the log with what is wrong, and nothing else is held up."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from sluice.events.base import Event
from sluice.events.codec import decode_commit, encode_message
from sluice.events.job import JobDeleted, JobFinished, JobScaled, JobStopped
from sluice.events.slices import InputsIgnored, Rejected, WorkloadCreated
from sluice.sdk import AsyncClient, NotPublishedError
from tests.integration.jobs.quick_scheduler import RunningScheduler
from tests.support.raw_publisher import publish_bytes
from tests.support.slices_world import QUEUE, manifest
from tests.support.system import System
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.nats


@pytest.fixture(autouse=True)
async def others_go_on(client: AsyncClient, scheduler: RunningScheduler) -> AsyncIterator[None]:
    """Around every test: a job submitted before runs on, one submitted after goes through."""
    assert scheduler.runner.role != "stopped"
    await client.submit(manifest("before"))
    await client.wait("before", "Running", timeout_s=PATIENCE_S)
    yield
    await client.submit(manifest("after"))
    await client.wait("after", "Running", timeout_s=PATIENCE_S)
    await client.finish("before", attempt=1)
    assert (await client.wait("before", timeout_s=PATIENCE_S)).success


async def answer(client: AsyncClient, seq: int) -> Event:
    """Return what the cell has written about the message at *seq*."""

    async def written() -> Event | None:
        async for entries in client.log.read(seq, ["slices"]):
            for entry in entries:
                for step in decode_commit(entry.payload).steps:
                    for event in step.events:
                        seqs = event.seqs if isinstance(event, InputsIgnored) else (event.cause,)
                        if seq in seqs:
                            return event
        return None

    found: Event = await eventually(written)
    return found


async def publish(client: AsyncClient, suffix: str, payload: bytes) -> Event:
    """Publish raw bytes, as a broken program would; returns the cell's answer."""
    ack = await client.log.append(suffix, payload)
    return await answer(client, ack.seq)


async def submit(client: AsyncClient, data: Any, name: str = "bad") -> Event:
    payload = encode_message(
        message_id=f"m-{name}",
        source="test",
        event_type="JobSubmitted",
        subject=name,
        at=1,
        data=data,
    )
    return await publish(client, f"job.default.{name}", payload)


def errors(event: Event) -> list[str]:
    assert isinstance(event, Rejected), event
    return [str(error) for error in event.errors]


async def test_undecodable_bytes(client: AsyncClient) -> None:
    for payload in (b"\x00\xff", b"", b'{"specversion":', b"null"):
        assert errors(await publish(client, "job.default.bad", payload))


async def test_subjects_of_any_bytes(client: AsyncClient, system: System) -> None:
    """A subject need not be text: the server takes any bytes but blanks, and every reader comes by."""
    seq = await client.log.end() + 1
    publish_bytes(system.url, b"sluice.main.job.default.\xff\xfe", b"{}")
    found = await answer(client, seq)
    assert errors(found)
    assert isinstance(found, Rejected)
    assert found.subject == r"job.default.\xff\xfe"


async def test_what_is_no_commit_on_a_service_s_subject(client: AsyncClient) -> None:
    """It is nobody's decision, and stands in the log for ever: all pass it over, and its owner leads on."""
    for writer in ("slices", "scheduler", "config", "variants", "checks"):
        for payload in (b"{}", b"\xff", b"[" * 100_000):
            await client.log.append(writer, payload)


async def test_invalid_manifests(client: AsyncClient) -> None:
    misspelt = manifest("bad")
    misspelt["spec"]["paralelism"] = 2
    assert any("spec.paralelism: Unknown field" in text for text in errors(await submit(client, misspelt)))
    assert errors(await submit(client, manifest("bad", queue=None))) == [
        f"metadata.labels[{QUEUE}]: Required value"
    ]
    (text,) = errors(await submit(client, manifest("bad", cpu="many")))  # type: ignore[arg-type]
    assert text.startswith("spec.template.spec.containers[0].resources.requests[cpu]: Invalid value")
    (text,) = errors(await submit(client, manifest("other")))
    assert "the message came on the subject of job 'bad'" in text


async def test_missing_and_wrong_fields_of_events(client: AsyncClient) -> None:
    await client.submit(manifest("bad"))
    for data, error in (
        ({}, "podSets: Required value"),
        ({"podSets": {"main": "three"}}, "podSets[main]: Invalid value"),
        ({"podSets": {"main": -3}}, "podSets[main]: Invalid value: -3"),
    ):
        payload = encode_message(
            message_id="x", source="test", event_type="JobScaled", subject="", at=1, data=data
        )
        found = errors(await publish(client, "job.default.bad", payload))
        assert error in found[0], found


async def test_unknown_kinds_and_types(client: AsyncClient) -> None:
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "bad"}}
    (text,) = errors(await submit(client, cron))
    assert text.startswith('kind: Unsupported value: "CronJob": ')
    payload = encode_message(
        message_id="x", source="test", event_type="JobExploded", subject="", at=1, data=msgspec.Raw(b"{}")
    )
    (text,) = errors(await publish(client, "job.default.bad", payload))
    assert text.startswith('type: Unsupported value: "JobExploded"')


async def test_events_for_unknown_jobs(client: AsyncClient) -> None:
    for data in (JobScaled(pod_sets={"main": 2}), JobStopped(), JobFinished(), JobDeleted()):
        seq = await client.publish("nobody", data)
        assert errors(await answer(client, seq)) == ['subject: Not found: "default/nobody"']


async def test_oversized_messages(client: AsyncClient) -> None:
    """Above a megabyte the cell refuses, above the server's limit the message cannot even be published."""
    fat = manifest("bad")
    fat["metadata"]["annotations"] = {"note": "x" * 2_000_000}
    assert errors(await submit(client, fat)) == ["Too long: may not be more than 1048576 bytes"]
    fat["metadata"]["labels"]["note"] = "y"
    fat["metadata"]["annotations"] = {"note": "x" * 9_000_000}
    with pytest.raises(NotPublishedError, match="the server takes at most"):
        await client._publish("default", "bad", "JobSubmitted", fat, "fat")


async def test_duplicates(client: AsyncClient) -> None:
    """Delivered twice, even past the server's own de-duplication, a submission is taken once."""
    first = await submit(client, manifest("bad"))
    assert isinstance(first, WorkloadCreated)
    second = await submit(client, manifest("bad"))
    assert isinstance(second, InputsIgnored)
    assert second.reason == "Duplicate"


async def test_out_of_order(client: AsyncClient) -> None:
    """Sizes and finishes that come late, or of attempts that are over or never were."""
    await client.submit(manifest("bad"))
    await client.wait("bad", "Running", timeout_s=PATIENCE_S)
    seq = await client.finish("bad", attempt=9)
    assert errors(await answer(client, seq)) == ["attempt: Invalid value: 9: the job's present attempt is 1"]
    await client.scale("bad", 2, generation=5)
    await client.publish("bad", JobStopped(attempt=1))
    await client.wait("bad", "Running", timeout_s=PATIENCE_S)
    old_size = await client.scale("bad", 1, generation=4)
    old_finish = await client.finish("bad", attempt=1)
    for seq in (old_size, old_finish):
        event = await answer(client, seq)
        assert isinstance(event, InputsIgnored)
        assert event.reason == "Stale"
    await client.finish("bad", attempt=2)
    assert (await client.wait("bad", timeout_s=PATIENCE_S)).success
    late = await client.scale("bad", 3)
    assert isinstance(await answer(client, late), InputsIgnored)


async def test_names_with_dots_and_blanks(client: AsyncClient) -> None:
    """A dot is part of a name; a blank is not allowed in one, and is refused where it can be told."""
    await client.submit(manifest("with.dots"))
    state = await client.wait("with.dots", "Running", timeout_s=PATIENCE_S)
    assert state.job == "default/with.dots"
    async for change in client.dispatch():
        if change.job == "default/with.dots":
            break
    await client.finish("with.dots", attempt=1)
    assert (await client.wait("with.dots", timeout_s=PATIENCE_S)).success
    payload = encode_message(
        message_id="x", source="test", event_type="JobSubmitted", subject="", at=1, data=manifest("a b")
    )
    found = errors(await publish(client, "job.default.a%20b", payload))
    assert found[0].startswith('metadata.name: Invalid value: "a b"')
