"""A write into a projection's bucket, on one server and on three: what may be taken of it, and when.

The simulator has its own idea of that (`tests.simulation.buckets.Intake`), which is held to the servers here.
"""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.streams import bucket_config, look_at
from sluice.log.runtime.projection import Publisher
from sluice.log.runtime.projection_entries import Tie, conditions
from sluice.log.runtime.projection_machine import Item, Refused, Write, Written
from tests.simulation.buckets import Intake, Refusal
from tests.support.nats_cluster import nats_cluster
from tests.support.waiting import eventually

__all__ = ["nats_cluster"]
pytestmark = pytest.mark.nats

_NUMBERS = iter(range(1, 10_000))
COMMITS_THERE = 2
"""An entry says which commit it shows, which must be there."""


class Nothing:
    bucket = "shown"

    def changes(self, _state, _step):
        return ()

    def everything(self, _state):
        return ()


async def yes():
    return True


@pytest.fixture
async def make(nats_server, nats_cluster):
    """A function that makes publishers of one new bucket, which a write is held together in by *tie*."""
    logs = []
    cell = f"cell{next(_NUMBERS)}"

    async def publisher(tie, server=0):
        if tie is Tie.IDS:
            logs.append(await JetStreamLog(nats_server.url, cell).open())
        else:
            logs.append(await nats_cluster.log(cell, server=server))
        if not await logs[-1].end():
            await commit(logs[-1], COMMITS_THERE)
        made = Publisher(Nothing(), logs[-1], yes)
        if tie is Tie.ANSWERS and await look_at(await made.log.connection(), made.bucket) is None:
            await create(made, allow_atomic=False)
        await stood(made)
        assert made._tie is tie
        return made

    yield publisher
    for log in logs:
        await log.close()


async def commit(log, count):
    for _ in range(count):
        await log.append("scheduler", b"{}")


async def create(publisher, **settings):
    config = bucket_config(publisher.bucket, 3) | settings
    connection = await publisher.log.connection()
    answer = await connection.ask(f"$JS.API.STREAM.CREATE.{publisher.stream}", config)
    assert "error" not in answer


async def stood(publisher):
    """Return where the bucket stands, once the servers say it, and this one knows who takes its entries."""

    async def stands():
        try:
            found = await publisher._stand()
            await ask(publisher, "refused", {"Nats-Expected-Last-Sequence": "1"})
        except (EventLogError, ConnectionError, TimeoutError):
            return None
        return found

    return await eventually(stands)


def items(count, key="k"):
    return [Item(f"{key}{n}", b'{"n":%d}' % n, 1, 1) for n in range(count)]


async def ask(publisher, key, headers):
    """Write an entry; return the server's answer, {} if it says that it has heard it."""
    connection = await publisher.log.connection()
    frame = await connection.request(publisher.prefix + key, b"{}", headers)
    return msgspec.json.decode(frame.payload or b"{}")


@pytest.mark.parametrize("foreign", [1, 2])
@pytest.mark.parametrize("tie", Tie)
async def test_nothing_is_taken_of_a_write_that_comes_too_late(make, tie, foreign):
    """Whoever led before has fewer or more entries than its successor has written meanwhile."""
    publisher = await make(tie)
    before = await stood(publisher)
    for n in range(foreign):
        await ask(publisher, f"later{n}", {})

    answer = await publisher._write(await publisher.log.connection(), Write(before.last, items(4)))

    assert answer == Refused()
    assert sorted(await publisher._read(before.last + 9)) == [f"later{n}" for n in range(foreign)]


@pytest.mark.parametrize("tie", Tie)
async def test_all_of_a_write_is_taken_in_order(make, tie):
    """Deletions too, which have a time to live."""
    publisher = await make(tie)
    before = await stood(publisher)
    written = [*items(3), Item("k0", None, 2, 2), Item("k9", b"{}", 2, 2)]

    answer = await publisher._write(await publisher.log.connection(), Write(before.last, written))

    assert answer == Written(before.last + 5)
    after = await stood(publisher)
    assert (after.last, after.confirmed) == (before.last + 5, COMMITS_THERE)
    assert list(await publisher._read(after.last)) == ["k1", "k2", "k9"]


@pytest.mark.parametrize("tie", [Tie.BATCH, Tie.ANSWERS])
async def test_of_two_leaders_that_write_at_once_one_writes(make, tie):
    """Through different servers, each as if it were alone: no entry stands between those of the other one."""
    publishers = [await make(tie), await make(tie, server=1)]
    connections = [await each.log.connection() for each in publishers]
    taken = []
    for n in range(10):
        stand = await stood(publishers[0])
        answers = await asyncio.gather(
            *(
                each._write(connection, Write(stand.last, items(20, f"{name}{n}.")))
                for name, each, connection in zip("ab", publishers, connections, strict=True)
            ),
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["Refused", "Written"]
        taken.append("ab"[answers.index(Written(stand.last + 20))])
    end = (await stood(publishers[0])).last
    found = [key.partition(".")[0] for key in await publishers[0]._read(end)]
    assert found == [f"{name}{n}" for n, name in enumerate(taken) for _ in range(20)]


async def test_what_holds_a_write_together_follows_the_bucket(make, nats_cluster):
    """Not what this service was told of servers: ids that do not agree stop a stream of several servers."""
    publisher = await make(Tie.BATCH)
    log = await nats_cluster.log(publisher.log.cell.name, server=2, replicas=1)
    other = Publisher(Nothing(), log, yes)
    await stood(other)
    await log.close()

    assert other._tie is Tie.BATCH


@pytest.mark.parametrize("tie", [Tie.IDS, Tie.BATCH])
@pytest.mark.parametrize("seed", range(5))
async def test_the_simulator_takes_what_the_server_takes(make, tie, seed):
    """Entries of several writes arrive one after the other, some never; what is stored, and what is said?"""
    publisher = await make(tie)
    chance = random.Random(seed)
    end = (await stood(publisher)).last
    intake, held = Intake(), {}
    headers: Any
    writes, count = [], 0
    for _ in range(120):
        drawn = chance.random()
        if not writes or drawn < 0.25:
            count += 1
            most = chance.randint(1, 4)
            headers = conditions(tie, end + chance.choice([0, 0, 0, 0, 1, -1]), most, f"w{count}")
            writes.append([(f"w{count}.{n}", each) for n, each in enumerate(headers)])
            continue
        entries = writes[-1] if chance.random() < 0.8 else chance.choice(writes)
        key, headers = (f"foreign{len(held)}", {}) if drawn < 0.3 else entries.pop(0)
        writes = [each for each in writes if each]
        if drawn > 0.95:
            continue
        stored = intake.arrives(key, headers, end)
        answer = await ask(publisher, key, headers)
        if isinstance(stored, Refusal):
            wanted = (10176,) if stored is Refusal.INCOMPLETE else (10070, 10071)
            assert answer["error"]["err_code"] in wanted
            continue
        for each in stored:
            end += 1
            held[each] = end
        assert answer.get("seq", 0) == (end if stored else 0)
    assert (await stood(publisher)).last == end
    assert len(held) > 10
    assert list(await publisher._read(end)) == list(held)
