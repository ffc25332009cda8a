"""What the service has said against verdicts is found for all that wait; the log is read once for them."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from sluice.api.errors import invalid
from sluice.events.base import Event, WorkloadKey
from sluice.events.checks import CheckInputRejected, VerdictIgnored
from sluice.events.codec import encode_commit
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.sdk.checks._history import FORGET_S, LOOK_S, Answers


class Log:
    """Commits of the service, and who reads them from where."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.reads: list[int] = []
        self.end = 0
        self.now = 1000.0
        self.answers = Answers(self.read, self.ends, lambda: self.now)

    def commit(self, seq: int, upto: int, *events: Event) -> None:
        payload = encode_commit("main", "checks", f"c{seq}", [Step(upto=upto, at=1, events=events)])
        self.entries.append(Entry(seq=seq, suffix="checks", header=b"", payload=payload, at=1))
        self.end = seq

    async def ends(self) -> int:
        return self.end

    async def read(self, first: int) -> AsyncIterator[Sequence[Entry]]:
        self.reads.append(first)
        for entry in self.entries:
            if entry.seq >= first:
                yield [entry]


def ignored(cause: int, reason: Any, message: str = "") -> VerdictIgnored:
    return VerdictIgnored(
        cause=cause,
        workload=WorkloadKey("a/b"),
        check="c",
        controller="x",
        attempt=1,
        state="Ready",
        reason=reason,
        message=message,
    )


def refused(cause: int) -> CheckInputRejected:
    return CheckInputRejected(cause=cause, subject="verdict.x", errors=(invalid("attempt", 1, "wrong"),))


async def test_what_was_refused_passed_over_and_not_read() -> None:
    log = Log()
    log.commit(20, 12, refused(10), ignored(11, "StaleAttempt", "old"))
    log.commit(21, 14, ignored(13, "Duplicate"))
    said = [await log.answers.to(seq) for seq in (10, 11, 12, 13, 14, 15)]
    assert said[1:] == ["StaleAttempt: old", True, True, True, False]
    assert "wrong" in str(said[0])
    assert log.reads == [11]


async def test_the_log_is_read_on_from_where_it_was_read_to() -> None:
    log = Log()
    log.commit(20, 10)
    assert await log.answers.to(12) is False
    log.commit(30, 15, refused(12))
    assert await log.answers.to(12) is False  # lately looked at
    log.now += LOOK_S
    assert "wrong" in str(await log.answers.to(12))
    assert log.reads == [13, 21]


async def test_an_older_verdict_is_looked_for_where_it_stands() -> None:
    log = Log()
    log.commit(20, 10, refused(5))
    log.commit(40, 35, refused(30))
    assert "wrong" in str(await log.answers.to(30))
    assert await log.answers.to(5) is False
    log.now += LOOK_S
    assert "wrong" in str(await log.answers.to(5))
    assert log.reads == [31, 6]


async def test_what_was_written_while_nobody_asked_is_not_read() -> None:
    log = Log()
    log.commit(20, 10)
    await log.answers.to(12)
    log.now += FORGET_S + 1
    log.commit(900, 880, refused(870))
    assert "wrong" in str(await log.answers.to(870))
    assert log.reads == [13, 871]
