"""The api service over real NATS: requests, refusals, reading one's own writes, watching."""

import asyncio
import json

import msgspec
import pytest

from sluice.cli.kit.errors import CliError
from sluice.events.codec import decode_commit
from sluice.log.nats.jetstream import JetStreamLog
from sluice.protocol.query import (
    ApplyRequest,
    DeleteRequest,
    ListRequest,
    Reference,
    WatchAnswer,
    WatchRequest,
)
from tests.support.waiting import PATIENCE_S

from .conftest import connected

pytestmark = pytest.mark.nats


def flavor(name, **labels):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": name, "labels": labels},
    }


def priority(name, description=""):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": 1,
        "description": description,
    }


def cohort(name, parent=""):
    spec = {"spec": {"parentName": parent}} if parent else {}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": name}, **spec}


async def test_what_was_applied_can_be_read_at_once(system):
    """The answer's sequence as `min_seq` reads one's own write from any replica."""
    async with connected(system) as api:
        for number in range(20):
            name = f"own-{number}"
            answer = await api.apply(ApplyRequest(objects=[flavor(name)]))
            found = await api.list(ListRequest(kind="ResourceFlavor", name=name, min_seq=answer.seq))
            assert [obj["metadata"]["name"] for obj in found.items] == [name]
            assert found.seq >= answer.seq


async def test_a_dry_run_changes_nothing(system):
    """The outcome is told, nothing is in the log."""
    async with connected(system) as api:
        before = (await api.status())["end"]
        answer = await api.apply(ApplyRequest(objects=[flavor("dry")], dry_run=True))

        assert answer.results[0].outcome == "created"
        assert (await api.status())["end"] == before
        assert (await api.list(ListRequest(kind="ResourceFlavor", name="dry"))).items == []


async def test_unchanged_leaves_no_trace(system):
    """Applying the same again writes no commit."""
    async with connected(system) as api:
        first = await api.apply(ApplyRequest(objects=[flavor("same")]))
        again = await api.apply(ApplyRequest(objects=[flavor("same")]))

        assert again.results[0].outcome == "unchanged"
        assert (await api.status())["end"] == first.seq


@pytest.mark.parametrize(
    ("subject", "payload", "reason"),
    [
        ("api.apply", b"not json", "BadRequest"),
        ("api.apply", b'{"objects": 3}', "BadRequest"),
        ("api.apply", b'{"objcts": []}', "BadRequest"),
        ("api.apply", b"\xff\xfe", "BadRequest"),
        ("query.list", b'{"kind": "Pod"}', "NotFound"),
        ("query.list", b'{"kind": "Job", "labelSelector": "a=b=c"}', "BadRequest"),
        ("query.watch", b'{"kind": "Nothing", "since": 0}', "NotFound"),
        ("api.delete", b"", "BadRequest"),
    ],
)
async def test_bad_requests_are_answered_with_a_status(system, subject, payload, reason):
    """Whatever comes, an answer says what is wrong, and the service lives on."""
    async with connected(system) as api:
        reply = await api.connection.request(f"sluice.main.{subject}", payload, timeout_s=PATIENCE_S)
        status = json.loads(reply.payload)

        assert (status["kind"], status["status"], status["reason"]) == ("Status", "Failure", reason)
        assert status["message"]
        assert (await api.status())["cell"] == "main"


@pytest.mark.parametrize(
    ("subject", "payload", "causes"),
    [
        ("query.list", b'{"limit": "a", "foo": 1}', ["foo", "kind", "limit"]),
        ("query.list", b'{"kind": "Job", "limit": -1}', ["limit"]),
        ("api.apply", b'{"objects": [1]}', ["objects[0]"]),
        ("query.status", b"", []),
    ],
)
async def test_all_that_is_wrong_with_a_request_is_named_with_its_field(system, subject, payload, causes):
    """As causes, for programs, and in the message, for people."""
    async with connected(system) as api:
        reply = await api.connection.request(f"sluice.main.{subject}", payload, timeout_s=PATIENCE_S)
        status = json.loads(reply.payload)

        assert sorted(cause["field"] for cause in status.get("details", {}).get("causes", ())) == causes
        assert all(field in status["message"] for field in causes)


async def test_a_sequence_of_the_future_is_not_answered_wrongly(system):
    """Who asks for a state that does not exist gets an error, not an older one."""
    async with connected(system) as api:
        with pytest.raises(CliError, match="ServiceUnavailable"):
            await api.list(ListRequest(kind="ResourceFlavor", min_seq=10**9))


async def test_long_lists_come_in_pages(system):
    """Every object once, although a page holds few."""
    async with connected(system) as api:
        names = [f"page-{number:03}" for number in range(25)]
        await api.apply(ApplyRequest(objects=[flavor(name, page="yes") for name in names]))
        request = ListRequest(kind="ResourceFlavor", label_selector="page=yes", limit=7)
        pages = [await api.list_page(request)]
        while pages[-1].continue_:
            pages.append(await api.list_page(msgspec.structs.replace(request, continue_=pages[-1].continue_)))

        assert [len(page.items) for page in pages] == [7, 7, 7, 4]
        assert [obj["metadata"]["name"] for page in pages for obj in page.items] == names


async def test_a_watch_tells_each_change_once(system):
    """Created, changed, deleted: in order, and nothing while nothing happens."""
    async with connected(system) as api:
        seq = (await api.apply(ApplyRequest(objects=[flavor("before")]))).seq
        quiet = await api.watch(WatchRequest(kind="ResourceFlavor", since=seq, timeout_ms=50))
        assert (quiet.items, quiet.deleted) == ([], [])

        waiting = asyncio.create_task(
            api.watch(WatchRequest(kind="ResourceFlavor", since=quiet.seq, timeout_ms=5000))
        )
        await api.apply(ApplyRequest(objects=[flavor("watched")]))
        seen = await waiting
        assert [obj["metadata"]["name"] for obj in seen.items] == ["watched"]

        await api.delete(DeleteRequest(objects=[Reference(kind="ResourceFlavor", name="watched")]))
        gone = await api.watch(WatchRequest(kind="ResourceFlavor", since=seen.seq, timeout_ms=5000))
        assert [reference.name for reference in gone.deleted] == ["watched"]
        assert gone.items == []


async def test_a_watch_of_many_comes_in_pages(system):
    """One event's worth of changes larger than an answer, and changes in between: nothing is left out."""
    async with connected(system) as api:
        before = (await api.apply(ApplyRequest(objects=[flavor("flood-first")]))).seq
        names = [f"flood-{number:04}" for number in range(1300)]
        await api.apply(ApplyRequest(objects=[flavor(name) for name in names]))
        request = WatchRequest(kind="ResourceFlavor", since=before, timeout_ms=5000)
        first = await api.ask("query.watch", request, WatchAnswer)
        assert first.continue_
        assert len(first.items) < len(names)
        await api.apply(ApplyRequest(objects=[flavor(names[5], changed="yes"), flavor("flood-last")]))
        await api.delete(DeleteRequest(objects=[Reference(kind="ResourceFlavor", name=names[7])]))
        rest = await api.watch(msgspec.structs.replace(request, since=first.seq, continue_=first.continue_))
        seen = {obj["metadata"]["name"]: obj for obj in (*first.items, *rest.items)}
        assert set(seen) == {*names, "flood-last"}
        assert seen[names[5]]["metadata"]["labels"] == {"changed": "yes"}
        assert [gone.name for gone in rest.deleted] == [names[7]]


async def test_objects_that_are_too_large(system):
    """Beyond a megabyte an object is refused by name; the others of the request are applied. A request
    beyond the server's limit of a message says so at once."""
    async with connected(system) as api:
        fat = priority("fat", "x" * 1_100_000)
        answer = await api.apply(ApplyRequest(objects=[flavor("lean-1"), fat, flavor("lean-2")]))
        assert [result.outcome for result in answer.results] == ["created", "refused", "created"]
        assert answer.results[1].status.reason == "RequestEntityTooLarge"
        assert "the limit is 1048576" in answer.results[1].status.message
        with pytest.raises(CliError, match="larger than the server takes"):
            await api.apply(ApplyRequest(objects=[priority("fat", "x" * 9_000_000)]))
        many = [priority(f"heavy-{number}", "x" * 900_000) for number in range(4)]
        answer = await api.apply(ApplyRequest(objects=many))
        assert {result.outcome for result in answer.results} == {"created"}
        listed = (await api.list(ListRequest(kind="WorkloadPriorityClass"))).items
        assert sum(obj["metadata"]["name"].startswith("heavy-") for obj in listed) == 4


async def test_a_request_whose_commit_is_too_large(system):
    """A raw request may be as large as a message; what it would make may not: refused whole, and told how."""
    async with connected(system) as api:
        end = (await api.status())["end"]
        room = api.max_payload // 8 - 200
        objects = [priority(f"bulky-{number}", "x" * room) for number in range(8)]
        reply = await api.connection.request(
            "sluice.main.api.apply", msgspec.json.encode(ApplyRequest(objects=objects)), timeout_s=PATIENCE_S
        )
        results = json.loads(reply.payload)["results"]
        assert {result["outcome"] for result in results} == {"refused"}
        assert "apply fewer objects at once" in results[0]["status"]["message"]
        assert (await api.status())["end"] == end


async def test_selectors_select(system):
    """Labels and fields as kubectl writes them."""
    async with connected(system) as api:
        await api.apply(ApplyRequest(objects=[flavor("s-a", tier="x", z="1"), flavor("s-b", tier="y")]))

        async def names(labels="", fields=""):
            request = ListRequest(kind="ResourceFlavor", label_selector=labels, field_selector=fields)
            return [obj["metadata"]["name"] for obj in (await api.list(request)).items]

        assert await names("tier=x") == ["s-a"]
        assert await names("tier in (x, y),z!=1") == ["s-b"]
        assert await names("tier,!z") == ["s-b"]
        assert await names(fields="metadata.name=s-a") == ["s-a"]


async def test_two_replicas_race_and_agree(system):
    """Cohorts that would close cycles are applied from all sides at once: the log never holds a cycle,
    and its chain has no fork."""

    async def climb(start: int) -> list[str]:
        outcomes: list[str] = []
        async with connected(system) as api:
            for number in range(15):
                below, above = f"ring-{(start + number) % 5}", f"ring-{(start + number + 1) % 5}"
                answer = await api.apply(ApplyRequest(objects=[cohort(below, above)]))
                outcomes.append(answer.results[0].outcome)
        return outcomes

    outcomes = [o for found in await asyncio.gather(*(climb(start) for start in range(6))) for o in found]

    assert set(outcomes) <= {"created", "configured", "unchanged", "refused"}
    assert "refused" in outcomes, "the last edge of the ring must be refused"
    parents: dict[str, str] = {}
    for event in await config_events(system):
        if event.type_name == "ObjectApplied" and event.name.startswith("ring-"):
            parents[event.name] = event.parent
            here, steps = event.name, 0
            while here in parents and steps < 10:
                here, steps = parents[here], steps + 1
            assert steps < 10, f"{event.name} closed a cycle at {event.seq}"


class Seen(msgspec.Struct):
    seq: int
    upto: int
    type_name: str
    name: str
    parent: str


async def config_events(system) -> list[Seen]:
    """Return all config events of the log; checks that each commit was planned on the one before it."""
    log = await JetStreamLog(system.url, system.cell, name="test").open(5)
    found, before = [], 0
    try:
        async for entries in log.read(1, ("config",)):
            for entry in entries:
                for step in decode_commit(entry.payload).steps:
                    assert before <= step.upto < entry.seq, "planned without knowing the commit before it"
                    for event in step.events:
                        plain = json.loads(msgspec.json.encode(event))
                        parent = plain.get("object", {}).get("spec", {}).get("parentName", "")
                        found.append(Seen(entry.seq, step.upto, plain["type"], plain["name"], parent))
                before = entry.seq
    finally:
        await log.close()
    return found
