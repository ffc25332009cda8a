"""One contract, two logs: the one in memory is trusted because it passes what JetStream passes."""

import asyncio

import pytest

from sluice.log.errors import MessageTooLargeError, StaleSequenceError
from sluice.log.memory import MemoryLog
from sluice.log.nats.jetstream import JetStreamLog
from tests.support.waiting import PATIENCE_S


@pytest.fixture(params=["memory", pytest.param("jetstream", marks=pytest.mark.nats)])
async def log(request):
    if request.param == "memory":
        yield MemoryLog()
        return
    server = request.getfixturevalue("nats_server")
    opened = await JetStreamLog(server.url).open()
    yield opened
    await opened.close()


async def taken(tail, woken, count):
    """Return the next *count* entries of a tail."""
    found = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            woken.clear()
            found += tail.take()
            if len(found) < count:
                await woken.wait()
    return found


async def test_numbers_messages_across_subjects(log):
    """Sequences grow by one, whatever the subject."""
    acks = [await log.append(suffix, b"x") for suffix in ("job.a.b", "scheduler", "job.a.c")]

    assert [ack.seq for ack in acks] == [1, 2, 3]
    assert await log.end() == 3


async def test_append_refuses_a_stale_sequence(log):
    """Of two writers from one sequence, one wins, and the other learns the actual one."""
    first = await log.append("scheduler", b"one", expected_last=0)
    await log.append("job.a.b", b"other subjects do not count")
    await log.append("scheduler", b"two", expected_last=first.seq)

    with pytest.raises(StaleSequenceError) as caught:
        await log.append("scheduler", b"three", expected_last=first.seq)

    assert (caught.value.expected, caught.value.actual) == (1, 3)
    assert await log.end() == 3


async def test_append_refuses_a_subject_that_should_be_empty(log):
    await log.append("scheduler", b"one")

    with pytest.raises(StaleSequenceError):
        await log.append("scheduler", b"two", expected_last=0)


async def test_same_id_is_stored_once(log):
    """A repeated message is answered with the place of the first."""
    first = await log.append("job.a.b", b"one", msg_id="m1")
    again = await log.append("job.a.b", b"one", msg_id="m1")

    assert (again.seq, again.duplicate) == (first.seq, True)
    assert await log.end() == 1


async def test_the_expectation_wins_over_the_same_id(log):
    """A commit sent twice is refused the second time: its writer must see whether the last one is its own."""
    await log.append("scheduler", b"one", expected_last=0, msg_id="m1")

    with pytest.raises(StaleSequenceError):
        await log.append("scheduler", b"one", expected_last=0, msg_id="m1")
    assert await log.end() == 1


async def test_append_refuses_what_is_too_large(log):
    with pytest.raises(MessageTooLargeError) as caught:
        await log.append("scheduler", bytes(log.max_payload + 1))

    assert caught.value.size == log.max_payload + 1
    assert await log.end() == 0


async def test_last_message_of_a_subject(log):
    assert await log.last("scheduler") is None
    await log.append("scheduler", b"one")
    await log.append("scheduler", b"\x00\xff two")
    await log.append("job.a%2Eb.c", b"three")

    last = await log.last("scheduler")
    assert (last.seq, last.suffix, last.payload) == (2, "scheduler", b"\x00\xff two")
    assert (await log.last("job.a%2Eb.c")).seq == 3


async def test_reads_to_the_end(log):
    """Reading ends with what was in the log when it began, filtered, in order, none left out."""
    for n in range(25):
        await log.append("job.a.b" if n % 2 else "scheduler", b"%d" % n)
    await log.append("config", b"c")

    jobs = [e async for batch in log.read(1, ["job.>"]) for e in batch]
    rest = [e.seq async for batch in log.read(24, ["job.>", "scheduler", "config"]) for e in batch]

    assert [(e.seq, e.payload) for e in jobs] == [(n + 1, b"%d" % n) for n in range(1, 25, 2)]
    assert rest == [24, 25, 26]


async def test_reading_nothing_ends(log):
    await log.append("job.a.b", b"x")

    assert [e async for batch in log.read(1, ["scheduler"]) for e in batch] == []
    assert [e async for batch in log.read(2, ["job.>"]) for e in batch] == []


async def test_tail_follows(log):
    """A tail gives what was there and what comes, then nothing until more comes."""
    await log.append("job.a.b", b"before")
    woken = asyncio.Event()
    tail = log.tail(1, ["job.*.*"], woken.set)
    before = await taken(tail, woken, 1)
    await log.append("scheduler", b"not of interest")
    await log.append("job.a.b", b"after")
    after = await taken(tail, woken, 1)

    assert [(e.seq, e.payload) for e in before + after] == [(1, b"before"), (3, b"after")]
    assert tail.take() == []
    assert (tail.position, tail.lag) == (3, 0)
    await tail.close()


async def test_times_never_go_back(log):
    """The time of an entry is the log's, in microseconds, the same for every reader."""
    for _ in range(3):
        await log.append("job.a.b", b"x")

    entries = [e async for batch in log.read(1, ["job.>"]) for e in batch]
    times = [e.at for e in entries]

    assert times == sorted(times)
    assert times[0] > 1_700_000_000_000_000
    assert (await log.last("job.a.b")).at == times[-1]


async def test_large_messages_arrive_whole(log):
    payload = bytes(range(256)) * 30_000
    await log.append("scheduler", payload)
    await log.append("scheduler", b"small")

    entries = [e async for batch in log.read(1, ["scheduler"]) for e in batch]

    assert [e.payload for e in entries] == [payload, b"small"]


async def test_many_writers_from_one_sequence(log):
    """Exactly one of many concurrent writers gets in."""
    results = await asyncio.gather(
        *(log.append("scheduler", b"%d" % n, expected_last=0, msg_id=f"m{n}") for n in range(10)),
        return_exceptions=True,
    )

    refused = [r for r in results if isinstance(r, StaleSequenceError)]
    assert len(refused) == 9
    assert await log.end() == 1


async def test_closing_a_tail_twice_over_is_harmless(log):
    tail = log.tail(1, ["job.>"], lambda: None)
    await tail.close()
    await tail.close()
