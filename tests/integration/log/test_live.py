"""The live reader and the writer when the server or the connection fails."""

import asyncio
import itertools
import shutil

import pytest

from sluice.events.base import WorkloadKey
from sluice.events.commit import Step
from sluice.events.scheduler import Admitted
from sluice.log.errors import StaleSequenceError, UnansweredError
from sluice.log.nats import consumer
from sluice.log.nats.consumer import HistoryLostError, LogReplacedError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.writer import CommitWriter
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import PATIENCE_S, eventually

W = WorkloadKey("w")
pytestmark = pytest.mark.nats


class Follower:
    """Collects what a tail brings."""

    def __init__(self, log, start=1, filters=("job.>", "scheduler")):
        self.seqs = []
        self.error = None
        self.tail = log.tail(start, filters, self.collect)

    def collect(self):
        try:
            self.seqs += [entry.seq for entry in self.tail.take()]
        except Exception as error:
            self.error = error


async def test_tail_goes_on_after_kill_and_restart(nats_server, open_log):
    """Whatever was stored before and after the server was killed arrives once, in order."""
    log = await open_log()
    follower = Follower(log)
    for _ in range(3):
        for n in range(50):
            await log.append("job.a.b", b"%d" % n)
        await eventually(lambda: follower.tail.position > 0)
        nats_server.restart()

        async def stored():
            try:
                return await log.append("job.a.b", b"again")
            except UnansweredError:
                return None

        await eventually(stored)
    end = await log.end()
    await eventually(lambda: follower.seqs and follower.seqs[-1] == end)

    assert follower.seqs == list(range(1, end + 1))
    await follower.tail.close()


async def test_gap_is_noticed_and_read_again(open_log, skip_delivery):
    """When the server skips deliveries, the reader begins anew behind the last good one."""
    log = await open_log()
    for n in range(100):
        await log.append("job.a.b", b"%d" % n)
    skip_delivery(40)
    follower = Follower(log)
    await eventually(lambda: follower.seqs and follower.seqs[-1] == 100)

    assert follower.seqs == list(range(1, 101))
    assert follower.tail.gaps == 1
    await follower.tail.close()


async def test_tail_survives_the_loss_of_its_consumer(open_log):
    log = await open_log()
    follower = Follower(log)
    await log.append("job.a.b", b"one")
    await eventually(lambda: follower.seqs == [1])
    connection = await log.connection()
    answer = await connection.ask(f"$JS.API.CONSUMER.DELETE.{log.cell.stream}.{follower.tail._consumer}")
    assert answer["success"]
    await log.append("job.a.b", b"two")
    await eventually(lambda: follower.seqs == [1, 2])
    await follower.tail.close()


@pytest.mark.parametrize("limit", ["PULL_MESSAGES", "PULL_BYTES"])
async def test_small_pulls_leave_nothing_out(open_log, monkeypatch, limit):
    monkeypatch.setattr(consumer, limit, 7 if limit == "PULL_MESSAGES" else 2_000)
    log = await open_log()
    follower = Follower(log)
    for n in range(100):
        await log.append("job.a.b", b"%d" % n)
    await eventually(lambda: follower.seqs and follower.seqs[-1] == 100)

    assert follower.seqs == list(range(1, 101))
    assert follower.tail.gaps == 0
    await follower.tail.close()


async def test_position_beyond_the_end_is_an_error(open_log):
    """A log that was replaced is not mistaken for one in which nothing happens."""
    log = await open_log()
    await log.append("job.a.b", b"one")
    follower = Follower(log, start=10)
    await eventually(lambda: follower.error)

    assert isinstance(follower.error, LogReplacedError)
    assert (follower.error.position, follower.error.last) == (9, 1)
    await follower.tail.close()


@pytest.mark.parametrize("put_back", [False, True])
async def test_after_a_restart_the_log_is_looked_at_before_it_is_taken_for_the_same(
    nats_server, open_log, tmp_path, put_back
):
    """One that was put back and has grown again is never taken for it."""
    log = await open_log()
    await log.append("job.a.b", b"one")
    store = nats_server.directory / "jetstream"
    await asyncio.to_thread(nats_server.stop)
    shutil.copytree(store, tmp_path / "backup")
    await asyncio.to_thread(nats_server.start)
    here, _, port = nats_server.url.rpartition(":")
    async with TcpProxy(lambda: int(port)) as proxy:
        through = await JetStreamLog(f"{here}:{proxy.port}").open()
        follower = Follower(through)
        await log.append("job.a.b", b"two")
        await eventually(lambda: follower.seqs == [1, 2])
        assert follower.tail.sure
        proxy.cut()
        await eventually(lambda: not follower.tail.sure)
        await asyncio.to_thread(nats_server.stop)
        if put_back:
            shutil.rmtree(store)
            shutil.copytree(tmp_path / "backup", store)
        await asyncio.to_thread(nats_server.start)
        await log.append("job.a.b", b"another")
        await log.append("job.a.b", b"and one more")
        proxy.heal()
        await eventually(lambda: follower.error or follower.tail.sure)
        assert follower.tail.sure is not put_back
        assert isinstance(follower.error, LogReplacedError) is put_back
        await follower.tail.close()
        await through.close()


def test_lost_history_is_an_error():
    with pytest.raises(HistoryLostError, match="from seq 1, but the log begins at 5"):
        consumer.check_history("S", {"first_seq": 5, "last_seq": 9}, 0)


async def test_commits_survive_kills_of_the_server(nats_server, open_log):
    """Commits go on while the server is killed again and again: each lands once, in order."""
    log = await open_log()
    writer = CommitWriter(log, "scheduler")
    await writer.find_head()
    done = asyncio.Event()
    written = []

    async def write():
        for n in itertools.count():
            await writer.write(
                [Step(upto=n, at=n + 1, events=(Admitted(cause=n, workload=WorkloadKey("w")),))],
                written.append,
            )
            if done.is_set():
                return

    task = asyncio.create_task(write())
    for kill in range(4):
        await eventually(lambda kill=kill: len(written) > 30 * (kill + 1))
        await asyncio.to_thread(nats_server.restart)
    done.set()
    await asyncio.wait_for(task, PATIENCE_S)

    from sluice.events.codec import decode_commit

    stored = [e async for batch in log.read(1, ["scheduler"]) for e in batch]
    uptos = [step.upto for e in stored for step in decode_commit(e.payload).steps]
    assert uptos == list(range(len(written)))
    assert [w.seq for w in written] == [e.seq for e in stored]


async def test_only_one_of_two_writers_gets_through(open_log):
    one, other = CommitWriter(await open_log(), "scheduler"), CommitWriter(await open_log(), "scheduler")
    step = Step(upto=0, at=1)
    await one.write([step], lambda _: None)

    with pytest.raises(StaleSequenceError):
        await other.write([step], lambda _: None)
    assert await other.find_head() == one.head


async def test_commit_larger_than_the_server_takes_is_split(open_log):
    """20 MiB of steps land as messages of at most 8 MiB."""
    large = WorkloadKey("w" * (3 << 20))
    log = await open_log()
    steps = [Step(upto=n, at=1, events=(Admitted(cause=n, workload=large),)) for n in range(7)]
    written = []

    await CommitWriter(log, "scheduler").write(steps, written.append)

    assert [len(w.steps) for w in written] == [2, 2, 2, 1]
    assert await log.end() == 4
