"""The published projections: production's own machine (`sluice.log.runtime.projection_machine`), whose
questions are answered
step by step: late, not, or with the answer lost; a part of what it writes may arrive, or all of it too late.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from sluice.events.commit import Step
from sluice.log.nats.streams import WHOLE
from sluice.log.runtime.hooks import Hooks
from sluice.log.runtime.projection_entries import conditions, tie_of
from sluice.log.runtime.projection_machine import (
    Answer,
    Ask,
    Confirm,
    Confirmed,
    Contents,
    Item,
    Look,
    Missing,
    Publishing,
    Read,
    Refused,
    Shows,
    Stand,
    Stood,
    Unanswered,
    Write,
    Written,
)

from .buckets import Bucket, Refusal
from .log import SECOND
from .replica import Fenced

if TYPE_CHECKING:
    from .cell import Cell
    from .replica import Replica

CHANGES = (Write, Read)
"""What is asked when there is something to do; the rest, when somebody looks whether there is."""


def alike(one: Any, other: Any) -> bool:
    """Are two values the same as bytes? What was read from bytes has lists where others have tuples."""
    return bool(one == other or msgspec.json.encode(one) == msgspec.json.encode(other))


def same(found: Any, value: Any) -> bool:
    """Tell whether an entry holds a value, of whichever commit."""
    return alike(msgspec.structs.replace(found, seq=0), value)


class Recorded:
    """A projection whose last answer can be asked for again."""

    def __init__(self, projection: Shows[Any, Any]) -> None:
        self.bucket, self.everything = projection.bucket, projection.everything
        self._projection = projection
        self.last: tuple[tuple[str, Any], ...] = ()

    def changes(self, state: Any, step: Step) -> tuple[tuple[str, Any], ...]:
        self.last = tuple(self._projection.changes(state, step))
        return self.last


@dataclass
class Shown:
    """A bucket, and what the log says that it should show."""

    bucket: Bucket[Any]
    projection: Recorded
    said: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    """Key -> its values, and the commits that they are of."""
    upto: int = 0
    """The commits up to here were noted."""
    noted_by: object = None
    writes: int = 0

    def note(self, by: object, seq: int, changes: Iterable[tuple[str, Any]]) -> None:
        """Note what a commit has changed, unless somebody else has."""
        if seq > self.upto:
            self.upto, self.noted_by = seq, by
        elif seq < self.upto or by is not self.noted_by:
            return
        for key, value in changes:
            self.said.setdefault(key, []).append((seq, value))

    def wrong(self, item: Item[Any]) -> str:
        """Tell what is wrong with an entry that is to be written, '' for nothing."""
        if item.key == WHOLE:
            return ""
        key, value, seq, _ = item
        if seq > self.upto:
            return f"{key} is shown as of {seq}, which nobody has in the log"
        wanted = next((value for of, value in reversed(self.said.get(key, ())) if of <= seq), None)
        if not alike(wanted, value):
            return f"{key} is shown as {value} as of {seq}, should be {wanted}"
        kept = self.bucket.values.get(key)
        if kept is not None and kept.value.seq > seq:
            return f"{key} goes back from {kept.value.seq} to {seq}"
        return ""


ANOTHER_BUCKET = ", by a write that was meant for a bucket that is lost"


@dataclass(eq=False)
class Batch:
    """Entries that are written in one go, on their way to the bucket."""

    cell: "Cell"
    shown: Shown
    question: Write[Any]
    came: int = 0
    refusal: Refusal | None = None
    """Of the last one that has come."""
    headers: list[dict[str, str]] = field(init=False)
    life: int = field(init=False)
    """Of the bucket that the entries were meant for."""

    def __post_init__(self) -> None:
        shown, question = self.shown, self.question
        self.life = shown.bucket.life
        shown.writes += 1
        # Entries that wait for one another's answers come to the same as those that ids hold together.
        tie = tie_of(3 if self.cell.on.clustered else 1, atomic=True)
        self.headers = list(conditions(tie, question.after, len(question.items), str(shown.writes)))

    @property
    def left(self) -> int:
        return len(self.question.items) - self.came

    def arrive(self, count: int) -> Answer:
        """Let the next entries arrive; return what the server says in the end."""
        bucket, question = self.shown.bucket, self.question
        if not bucket.exists:
            self.came += count
            return Unanswered("no bucket")
        for index in range(self.came, self.came + count):
            found = bucket.intake.arrives(question.items[index], self.headers[index], bucket.revision)
            self.refusal = found if isinstance(found, Refusal) else None
            if not isinstance(found, Refusal):
                for item in found:
                    self._store(item)
        self.came += count
        if self.refusal is Refusal.INCOMPLETE:
            return Unanswered(self.refusal.value)
        return Refused() if self.refusal is not None else Written(question.after + self.came)

    def _store(self, item: Item[Any]) -> None:
        shown = self.shown
        if wrong := shown.wrong(item):
            crossed = "" if self.life == shown.bucket.life else ANOTHER_BUCKET
            self.cell.watchman.fail("shows-the-log", f"{shown.projection.bucket}: {wrong}{crossed}")
        value = None if item.value is None else msgspec.structs.replace(item.value, seq=item.seq)
        shown.bucket.show(item.key, value, item.of)

    def arrives(self) -> None:
        """Let the rest arrive, whoever waits for it."""
        if self.left:
            self.arrive(self.left)


class Publisher(Hooks[Any]):
    """Keeps one bucket as its service's leader says: one replica's part in it."""

    def __init__(self, cell: "Cell", shown: Shown) -> None:
        self.cell, self.shown, self.bucket = cell, shown, shown.bucket
        self.replica: Replica | None = None
        self.todo: deque[Ask] = deque()
        self.answer: Answer | None = None
        """To the first of these, on its way."""
        self.batch: Batch | None = None
        """Of what is written, only a part has arrived."""
        self.held = False
        """What it asks is not sent for now."""
        self.start()

    def start(self) -> None:
        """A new process."""
        self.machine: Publishing[Any, Any] = Publishing(self.shown.projection, same)

    @property
    def now(self) -> float:
        return self.cell.log.now / SECOND

    # Hooks

    def rebuilding(self, upto: int, own: int) -> None:  # noqa: ARG002
        self.machine.rebuilding(own)

    def replayed(self, state: Any, step: Step, seq: int) -> None:
        self.machine.replayed(state, step, seq)
        self.shown.note(self, seq, self.shown.projection.last)

    def decided(self, state: Any, step: Step) -> object:
        return self.machine.decided(state, step)

    def committed(self, state: Any, steps: Sequence[Step], seq: int, effects: Sequence[object]) -> None:  # noqa: ARG002
        changes: Any = effects
        self.shown.note(self, seq, chain.from_iterable(changes))
        self.todo += self.machine.committed(seq, changes, self.now)

    def leading(self, state: Any, own: int) -> None:
        self.todo += self.machine.leading(state, own, self.now)

    def following(self) -> None:
        """Nobody waits for answers any more; what was sent may arrive."""
        if self.todo and self.answer is None and isinstance(self.todo[0].question, Write):
            batch = self.batch or Batch(self.cell, self.shown, self.todo[0].question)
            self.cell.delay(batch.arrives)
        self.todo.clear()
        self.answer = self.batch = None
        self.machine.following()

    # steps

    @property
    def due(self) -> bool:
        """Is there anything to ask, or to hear?"""
        replica = self.replica
        if self.held or replica is None or not replica.machine.leads or not replica.able:
            return False
        if self.todo:
            return True
        deadline = self.machine.deadline
        return deadline is not None and deadline <= self.now

    def step(self, *, quick: bool) -> bool:
        """Let a question come to the server, or the answer be heard, or both; tell if anything was done.

        Raises:
            Fenced: another leads, as was found out just now.
        """
        if not self.todo:
            self.todo += self.machine.tick(self.now)
            if not self.todo:
                return False
        ask = self.todo[0]
        if self.answer is None:
            self.answer = self._asked(ask.question)
            if self.answer is None or not quick:
                return True
        answer, self.answer = self.answer, None
        self.todo.popleft()
        self.todo += self.machine.answer(ask.number, answer, self.now)
        if isinstance(answer, Confirmed) and not self._leads:
            raise Fenced("the lease is another's")
        return isinstance(ask.question, CHANGES)

    def to_write(self) -> Write[Any] | None:
        """Return what is to be written next, if that is what it has to ask."""
        question = self.todo[0].question if self.todo and self.answer is None else None
        return question if isinstance(question, Write) else None

    def writes_part(self, count: int) -> None:
        """Let so many entries of what is written come to the bucket, the others later."""
        question = self.to_write()
        assert question is not None
        self.batch = self.batch or Batch(self.cell, self.shown, question)
        self.batch.arrive(min(count, self.batch.left))

    @property
    def _leads(self) -> bool:
        assert self.replica is not None
        return self.replica.service.holder is self.replica

    def _asked(self, question: Any) -> Answer | None:
        """Return the answer, of whatever kind; None: not yet."""
        lost = self.cell.unanswered()
        if isinstance(question, Write):
            return self._write(question, lost)
        if isinstance(question, Confirm):
            # Who cannot say does not say yes.
            return Confirmed(self._leads and not lost)
        if lost == "lost":
            return Unanswered(lost)
        answer = self._answered(question)
        return Unanswered(lost) if lost else answer

    def _answered(self, question: Any) -> Answer:
        bucket = self.bucket
        match question:
            case Read(end):
                return Contents(bucket.until(end)) if bucket.exists else Unanswered("no bucket")
            case Stand():
                bucket.make()
                return self._stood(self.cell.log.end)
            case Look():
                return self._stood(0) if bucket.exists else Missing()
        raise TypeError(f"{type(question).__name__} is no question to the server")

    def _stood(self, end: int) -> Stood:
        bucket = self.bucket
        return Stood(str(bucket.life), bucket.revision, bucket.whole, bucket.last_of, end)

    def _write(self, question: Write[Any], lost: str) -> Answer | None:
        """Let entries come to the bucket: all of them, or some now and some later, or never."""
        cell, batch = self.cell, self.batch
        if batch is None:
            batch = Batch(cell, self.shown, question)
            if batch.left > 1 and cell.interrupts():
                batch.arrive(cell.choices.between(1, batch.left - 1))
                self.batch = batch
                return None
        self.batch = None
        if lost == "lost":
            cell.delay(batch.arrives)
            return Unanswered(lost)
        answer = batch.arrive(batch.left)
        return Unanswered(lost) if lost else answer


__all__ = ["CHANGES", "Batch", "Publisher", "Recorded", "Shown", "alike"]
