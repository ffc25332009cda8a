"""What a projection's bucket holds when somebody else writes to it as well."""

import asyncio
import contextlib

import pytest

from sluice.events.commit import Step
from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import read_stream
from sluice.log.runtime import projection, projection_entries
from sluice.log.runtime.projection import Publisher
from sluice.log.runtime.projection_machine import Item, Refused, Write, Written
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.nats


class Shown:
    """A projection that is told what to show."""

    bucket = "shown"

    def __init__(self):
        self.all = {}
        self.faults = 0

    def changes(self, _state, _step):
        return ()

    def everything(self, _state):
        if self.faults:
            self.faults -= 1
            raise LookupError("a fault")
        return self.all.items()


async def yes():
    return True


async def keys(publisher):
    """Return key -> value of the bucket."""
    found = {}
    async for batch in read_stream(publisher.log, publisher.stream, publisher.prefix, 99):
        for entry in batch:
            found[entry.suffix] = entry.payload
    return {key: value for key, value in found.items() if value}


@pytest.fixture
async def publisher(open_log):
    log = await open_log()
    for n in range(9):
        await log.append("scheduler", b"%d" % n)
    publisher = Publisher(Shown(), log, yes)
    publisher.leading({}, 1)
    await drained(publisher)
    yield publisher
    publisher.following()


async def drained(publisher):
    async with asyncio.timeout(PATIENCE_S):
        await publisher.drain()


def commit(publisher, seq, changes):
    publisher.projection.all |= dict(changes)
    publisher.decided(None, Step(upto=0, at=0))
    publisher.committed(None, [Step(upto=0, at=0)], seq, [changes])


@pytest.mark.parametrize("foreign", [1, 2, 3])
@pytest.mark.parametrize("tie", projection_entries.Tie)
async def test_no_entry_is_lost_to_another_writer(publisher, foreign, tie, monkeypatch):
    """Entries of a batch that meets entries of a leader that was replaced are all written all the same."""
    monkeypatch.setattr(projection, "tie_of", lambda *_, **__: tie)
    publisher._tie = tie
    connection = await publisher.log.connection()
    for n in range(foreign):
        await connection.request(f"{publisher.prefix}stray{n}", b'{"seq":1}')

    commit(publisher, 2, [("a", b'{"n":1}'), ("b", b'{"n":2}'), ("c", b'{"n":3}')])
    await drained(publisher)

    assert {key: value for key, value in (await keys(publisher)).items() if key in "abc"} == {
        "a": b'{"seq":2,"n":1}',
        "b": b'{"seq":2,"n":2}',
        "c": b'{"seq":2,"n":3}',
    }


async def test_a_later_leader_is_not_overwritten(publisher):
    """Who finds entries of a later commit writes nothing, even if the lease says that it leads."""
    connection = await publisher.log.connection()
    await connection.request(f"{publisher.prefix}a", b'{"seq":5,"n":9}')

    commit(publisher, 2, [("a", b'{"n":1}'), ("b", b'{"n":2}')])
    with pytest.raises(AssertionError, match="still False"):
        await eventually(lambda: publisher._idle.is_set(), timeout_s=0.5)

    assert await keys(publisher) == {"a": b'{"seq":5,"n":9}'}


async def test_a_bucket_of_an_older_log_is_written_anew(open_log):
    """Entries of commits that this log has not come to do not hold anything up."""
    log = await open_log()
    await log.append("scheduler", b"1")
    projection = Shown()
    projection.all = {"a": b'{"n":1}'}
    publisher = Publisher(projection, log, yes)
    await publisher._stand()
    connection = await log.connection()
    await connection.request(f"{publisher.prefix}a", b'{"seq":500,"n":9}')

    publisher.leading({}, 1)
    await drained(publisher)
    publisher.following()

    assert await keys(publisher) == {"a": b'{"seq":1,"n":1}'}


async def test_a_fault_does_not_end_it(open_log):
    """After an error of the projection itself everything is compared, and written."""
    log = await open_log()
    await log.append("scheduler", b"1")
    projection = Shown()
    projection.all, projection.faults = {"a": b'{"n":1}'}, 1
    publisher = Publisher(projection, log, yes)

    publisher.leading({}, 1)
    await drained(publisher)
    publisher.following()

    assert await keys(publisher) == {"a": b'{"seq":1,"n":1}'}


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_late_write_is_refused_by_a_bucket_made_in_the_place_of_its_own(
    open_log, nats_server, restarted
):
    """No sequence of a bucket comes again in its successor, empty or not, nor after a restart."""
    log = await open_log()
    await log.append("scheduler", b"1")
    publisher = Publisher(Shown(), log, yes)
    before = await publisher._stand()
    connection = await log.connection()
    await connection.ask(f"$JS.API.STREAM.DELETE.{publisher.stream}")
    after = await publisher._stand()
    assert after.last > before.last > 1_000_000
    if restarted:
        nats_server.restart()

        async def stands():
            with contextlib.suppress(ConnectionError, TimeoutError, EventLogError):
                return await publisher._stand()

        assert (await eventually(stands)).last == after.last
    late = Write(before.last, [Item("a", b'{"n":1}', 1, 1)])

    assert await publisher._write(await log.connection(), late) == Refused()

    in_time = Write(after.last, [Item("a", b'{"n":2}', 1, 1)])
    assert await publisher._write(await log.connection(), in_time) == Written(after.last + 1)
    assert await keys(publisher) == {"a": b'{"seq":1,"n":2}'}
