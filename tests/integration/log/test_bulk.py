"""The bulk reader against the live one, and against a server that goes away."""

import asyncio

import pytest

from sluice.log.errors import LogUnavailableError
from sluice.log.nats import blocking, blocking_connection, consumer
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.blocking import BulkReader
from sluice.log.nats.consumer import LogReplacedError
from tests.support.waiting import eventually

pytestmark = pytest.mark.nats


async def fill(log, count):
    await asyncio.gather(*(log.append(f"job.a.b{n % 7}", b"%d" % n * 20) for n in range(count)))


def flat(batches):
    return [entry for batch in batches for entry in batch]


async def test_reads_what_the_live_reader_reads(nats_server, open_log):
    log = await open_log()
    await fill(log, 3000)
    await log.append("scheduler", bytes(3_000_000))
    live = [e async for batch in log.read(1, ["job.>", "scheduler"]) for e in batch]

    assert flat(BulkReader(nats_server.url, "main")) == live
    assert [e.seq for e in flat(BulkReader(nats_server.url, "main", until=10, start=4))] == list(range(4, 11))
    assert [e.seq for e in flat(BulkReader(nats_server.url, "main", filters=["scheduler"]))] == [3001]
    assert flat(BulkReader(nats_server.url, "main", filters=["checks"])) == []
    assert flat(BulkReader(nats_server.url, "main", start=3002)) == []


async def test_leaves_no_consumer_behind(nats_server, open_log):
    """However it ends: at the end, with nothing to read, or as nobody wants more."""
    log = await open_log()
    await fill(log, 300)
    flat(BulkReader(nats_server.url, "main"))
    flat(BulkReader(nats_server.url, "main", filters=["checks"]))
    broken_off = iter(BulkReader(nats_server.url, "main"))
    next(broken_off)
    broken_off.close()

    async def left():
        found = await api.info(await log.connection(), log.cell.stream)
        return found["state"]["consumer_count"] == 0

    async with asyncio.timeout(30):  # by itself the server forgets one after a minute
        assert await eventually(left)


async def test_pulls_again_and_again(nats_server, open_log, monkeypatch):
    """Batches smaller than the log, by number and by bytes, leave nothing out."""
    log = await open_log()
    await fill(log, 500)
    monkeypatch.setattr(consumer, "PULL_MESSAGES", 64)
    assert [e.seq for e in flat(BulkReader(nats_server.url, "main"))] == list(range(1, 501))
    monkeypatch.setattr(consumer, "PULL_MESSAGES", 10_000)
    monkeypatch.setattr(consumer, "PULL_BYTES", 4_000)
    assert [e.seq for e in flat(BulkReader(nats_server.url, "main"))] == list(range(1, 501))


async def test_resumes_after_the_server_was_killed(nats_server, open_log, monkeypatch):
    log = await open_log()
    await fill(log, 500)
    monkeypatch.setattr(consumer, "PULL_MESSAGES", 100)
    reader = BulkReader(nats_server.url, "main")
    seen = []
    for batch in reader:
        seen += batch
        if len(seen) >= 200 and reader.end:
            nats_server.restart()
            reader.end = reader.end
            seen_before = len(seen)
            break
    rest = flat(iter(reader))

    assert [e.seq for e in seen + rest] == list(range(1, 501))
    assert seen_before >= 200


async def test_kill_in_the_middle_of_iteration(nats_server, open_log, monkeypatch):
    """The connection breaks under the reader's hands; it goes on where it was."""
    log = await open_log()
    await fill(log, 2000)
    monkeypatch.setattr(consumer, "PULL_MESSAGES", 50)
    monkeypatch.setattr(blocking_connection, "RECEIVE_BYTES", 4096)
    seen, killed = [], False
    for batch in BulkReader(nats_server.url, "main"):
        seen += batch
        if len(seen) > 700 and not killed:
            killed = True
            nats_server.restart()

    assert [e.seq for e in seen] == list(range(1, 2001))


async def test_gap_is_noticed_and_read_again(nats_server, open_log, skip_delivery):
    """A delivery that was skipped makes the reader begin anew; nothing is left out."""
    log = await open_log()
    await fill(log, 300)
    skip_delivery(120)
    reader = BulkReader(nats_server.url, "main")

    assert [e.seq for e in flat(reader)] == list(range(1, 301))
    assert reader.gaps == 1


async def test_missing_and_replaced_logs_are_errors(nats_server, open_log, monkeypatch):
    monkeypatch.setattr(blocking, "ATTEMPTS", 2)
    with pytest.raises(LogUnavailableError):
        flat(BulkReader(nats_server.url, cell="other"))
    with pytest.raises(LogUnavailableError):
        flat(BulkReader("nats://127.0.0.1:1", "main"))

    log = await open_log()
    await fill(log, 10)
    reader = BulkReader(nats_server.url, "main", start=21)
    reader.end = 30
    with pytest.raises(LogReplacedError):
        flat(reader)
