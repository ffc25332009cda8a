"""The chain of commits: splitting, refusal, and settling what was not answered."""

import asyncio

import pytest

from sluice.events.codec import decode_commit, message_id_of
from sluice.events.commit import Step
from sluice.events.scheduler import Admitted
from sluice.log.errors import LogUnavailableError, StaleSequenceError, StepTooLargeError, UnansweredError
from sluice.log.memory import MemoryLog
from sluice.log.writer import ENVELOPE_ROOM, CommitWriter, split
from tests.support.waiting import eventually


def steps(*sizes):
    return [
        Step(upto=n, at=n + 1, events=(Admitted(cause=n, workload="w" * size),))
        for n, size in enumerate(sizes)
    ]


class FaultyLog(MemoryLog):
    """A log that loses questions or answers: `faults` says for each append what happens to it."""

    def __init__(self, *faults):
        super().__init__()
        self.faults = list(faults)
        self.lost_looks = 0

    async def append(self, suffix, payload, **expected):
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "question lost":
            raise UnansweredError(suffix, fault)
        ack = await super().append(suffix, payload, **expected)
        if fault == "answer lost":
            raise UnansweredError(suffix, fault)
        return ack

    async def last(self, suffix):
        if self.lost_looks:
            self.lost_looks -= 1
            raise LogUnavailableError("away")
        return await super().last(suffix)


async def committed(log):
    return [step for e in log.entries if e.suffix == "scheduler" for step in decode_commit(e.payload).steps]


@pytest.mark.parametrize(
    ("sizes", "limit", "ends"),
    [([], 10, [0]), ([3], 10, [1]), ([4, 4], 10, [2]), ([4, 5, 4], 10, [1, 2, 3]), ([20, 1, 1], 10, [1, 3])],
)
def test_splits_at_borders(sizes, limit, ends):
    assert split(sizes, limit) == ends


async def test_large_commit_is_split_at_step_borders():
    """Each message fits, steps stay whole and in order, and each names its predecessor."""
    log = MemoryLog(max_payload=ENVELOPE_ROOM + 1000)
    wanted, seen = steps(*[300] * 7), []

    await CommitWriter(log, "scheduler").write(wanted, seen.append)

    assert await committed(log) == wanted
    assert len(log.entries) == 4
    assert [w.seq for w in seen] == [1, 2, 3, 4]
    assert [s for w in seen for s in w.steps] == wanted


async def test_step_larger_than_a_message_is_refused():
    """What came before it is in the log, and nothing of it or after it."""
    log = MemoryLog(max_payload=ENVELOPE_ROOM + 1000)
    wanted = steps(10, 2000, 10)

    with pytest.raises(StepTooLargeError) as caught:
        await CommitWriter(log, "scheduler").write(wanted, lambda _: None)

    assert caught.value.limit == 1000
    assert "Admitted of www" in str(caught.value), "it does not say what is so large"
    assert await committed(log) == wanted[:1]


async def test_second_leader_is_refused():
    """Of two writers at the same head, the second is fenced and nothing of it is written."""
    log = MemoryLog()
    first, second = CommitWriter(log, "scheduler"), CommitWriter(log, "scheduler")
    await first.find_head()
    await second.find_head()
    await first.write(steps(1), lambda _: None)

    with pytest.raises(StaleSequenceError):
        await second.write(steps(2), lambda _: None)
    assert await committed(log) == steps(1)


@pytest.mark.parametrize("fault", ["question lost", "answer lost"])
async def test_unanswered_commit_is_settled(fault):
    """Whether the question or the answer was lost, the commit ends up in the log exactly once."""
    log = FaultyLog("", fault, fault)
    log.lost_looks = 1
    writer = CommitWriter(log, "scheduler")
    await writer.find_head()
    await writer.write(steps(1), lambda _: None)
    seen = []
    await writer.write(steps(2), seen.append)
    await writer.write(steps(3), seen.append)

    assert await committed(log) == [*steps(1), *steps(2), *steps(3)]
    assert [w.seq for w in seen] == [2, 3]


async def test_nothing_is_sent_again_before_the_log_is_known_to_be_the_same():
    """It may have been replaced while nobody answered, and the predecessor may stand in both."""
    log, looked = FaultyLog("question lost"), asyncio.Event()
    looked.set()

    async def away(suffix, payload, **expected):
        looked.clear()
        return await original(suffix, payload, **expected)

    original, log.append = log.append, away
    writing = asyncio.create_task(CommitWriter(log, "scheduler").write(steps(1), lambda _: None, looked.wait))
    await eventually(lambda: not log.faults)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not log.entries
    looked.set()
    await writing
    assert await committed(log) == steps(1)


async def test_unanswered_commit_of_a_replaced_leader_is_void():
    """When the answer was lost and another leader has gone on since, this one is fenced."""
    log = FaultyLog("answer lost")
    old = CommitWriter(log, "scheduler")

    async def successor_writes(suffix):
        new = CommitWriter(log, "scheduler")
        new.chain.head = 1
        log.last = original
        await new.write(steps(5), lambda _: None)
        return await original(suffix)

    original, log.last = log.last, successor_writes
    with pytest.raises(StaleSequenceError):
        await old.write(steps(1), lambda _: None)
    assert await committed(log) == [*steps(1), *steps(5)]


async def test_a_commit_is_not_taken_for_another_message_with_its_id():
    """Who knows the id of a commit and uses it first stops nothing: the log does not have the commit yet."""
    log, writer = MemoryLog(), CommitWriter(MemoryLog(), "scheduler")
    writer.log = log
    writer.chain._nonce = iter(["guessed", "new"]).__next__
    await log.append("job.default.x", b"{}", msg_id=f"scheduler-0-guessed-{writer.instance}")

    with pytest.raises(StaleSequenceError):
        await writer.write(steps(1), lambda _: None)
    assert await committed(log) == []

    await writer.find_head()
    await writer.write(steps(1), lambda _: None)
    assert await committed(log) == steps(1)


async def test_ids_of_commits_do_not_repeat():
    """The id of the next commit cannot be told from those in the log."""
    log = MemoryLog()
    writer = CommitWriter(log, "scheduler")
    for _ in range(3):
        writer.chain.head = 0
        log._last.clear()
        await writer.write(steps(1), lambda _: None)
    assert len({message_id_of(entry.payload) for entry in log.entries}) == 3
