"""Machine of a projection: what to write into its bucket, and when. No input or output, clock or server.

`sluice.log.runtime.projection` is the shell around it. Every method is told the time (seconds of any clock
that
never goes back) and returns what is to be done; `deadline` says when to call `tick`. An `Ask` wants one
`answer`; those of a time in which this replica did not lead are not heard.

Entries are written in the order of commits and say which one they are of, so the last one tells a successor
what may be missing. A comparison of everything has no such order: its entries say 0, all but the last, so
whoever comes upon the middle of one compares again. A bucket that was made anew gets the key `WHOLE` last.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import structlog

from sluice.events.commit import Step
from sluice.log.nats.streams import WHOLE

BATCH = 500
"""Entries written before an acknowledgement is waited for."""

REMEMBERED = 20_000
"""Latest changes that a stand-by keeps, to repair without comparing everything."""

LOOK_S = 1.0
"""How often an idle leader looks whether the bucket is as it was left."""

REPAIR_AGAIN_S, WRITE_AGAIN_S, FAULT_AGAIN_S = 0.2, 0.1, 1.0

log = structlog.get_logger("sluice.log.projection")


class Shows[S, V](Protocol):
    """What a service shows in one bucket. Pure."""

    bucket: str
    """After the cell: "dispatch" is the bucket `sluice_<cell>_dispatch`."""

    def changes(self, state: S, step: Step) -> Iterable[tuple[str, V | None]]:
        """Return what *step* has changed; *state* is exactly as of the step."""
        ...

    def everything(self, state: S) -> Iterable[tuple[str, V]]:
        """Return all keys and values that there should be."""
        ...


# questions


class Stand(NamedTuple):
    """Where does the bucket stand? Makes it, if there is none. Answer: `Stood` or `Unanswered`."""


class Look(NamedTuple):
    """As `Stand`, without making it. Answer: `Stood`, `Missing` or `Unanswered`."""


class Confirm(NamedTuple):
    """Does this replica still lead? Answer: `Confirmed` or `Unanswered`."""


class Read(NamedTuple):
    """All that the bucket holds up to sequence *end*. Answer: `Contents` or `Unanswered`."""

    end: int


class Item[V](NamedTuple):
    """One entry: *value* None deletes the key. *of*: the commit that the bucket shows once it is written."""

    key: str
    value: V | None
    seq: int
    of: int


class Write[V](NamedTuple):
    """Write *items* behind sequence *after*, in order, none without that before it, as long as nobody else
    writes. Answer: `Written`, `Refused` (the first ones may have been written) or `Unanswered`."""

    after: int
    items: Sequence[Item[V]]


Question = Stand | Look | Confirm | Read | Write[Any]


class Ask(NamedTuple):
    number: int
    question: Question


# answers


class Stood(NamedTuple):
    """*created*: tells the bucket from another one of this name; *last*: its last sequence; *whole*: see
    `WHOLE`; *confirmed*: the commit that the last entry is of, 0 if that is unknown; *end*: of the log."""

    created: str
    last: int
    whole: bool
    confirmed: int = 0
    end: int = 0


class Missing(NamedTuple):
    """There is no such bucket."""


class Confirmed(NamedTuple):
    leads: bool


class Contents[V](NamedTuple):
    found: Mapping[str, V]


class Written(NamedTuple):
    last: int


class Refused(NamedTuple):
    """Somebody else has written."""


class Unanswered(NamedTuple):
    detail: str = ""


Answer = Stood | Missing | Confirmed | Contents[Any] | Written | Refused | Unanswered


class Publishing[S, V]:
    """Keeps one bucket as the projection says, while this replica leads.

    *same*: tells whether an entry that was found holds a value, of whichever commit.
    """

    def __init__(self, projection: Shows[S, V], same: Callable[[V, V], bool]) -> None:
        self.projection, self._same = projection, same
        self.idle = False
        """Everything committed is written."""
        self.deadline: float | None = None
        """When to call `tick`; None: not before anything else happens."""
        self._queue: dict[str, tuple[V | None, int]] = {}
        self._recent: OrderedDict[str, tuple[V | None, int]] = OrderedDict()
        self._floor = self._own = 0
        self._state: S | None = None
        self._decided = self._committed = 0
        self._now = 0.0
        self._out: list[Ask] = []
        self._numbers = 0
        self._open: dict[int, Callable[[Answer], None]] = {}
        self._alarms: list[tuple[float, Callable[[], None]]] = []
        self._left: list[Item[V]] = []
        self._stood = Stood("", 0, whole=False)
        self._suspect = self._looking = False
        """Somebody else has written something; a look at the bucket is under way."""
        self._rests_on: tuple[int, dict[str, V]] | None = None
        """What there should be, and how many steps must be in the log before it may be shown."""

    # what the service tells

    def rebuilding(self, own: int) -> None:
        """What was known is void; a state begins anew at own commit *own*."""
        self._recent.clear()
        self._queue.clear()
        self._floor = own

    def replayed(self, state: S, step: Step, seq: int) -> None:
        """A step was read back from the log."""
        recent = self._recent
        for key, value in self.projection.changes(state, step):
            recent[key] = (value, seq)
            recent.move_to_end(key)
            if len(recent) > REMEMBERED:
                _, (_, dropped) = recent.popitem(last=False)
                self._floor = max(self._floor, dropped)

    def decided(self, state: S, step: Step) -> Sequence[tuple[str, V | None]]:
        """A step was decided; what it changes is handed to `committed`."""
        self._decided += 1
        return tuple(self.projection.changes(state, step)) if step.events else ()

    def committed(self, seq: int, effects: Sequence[Iterable[tuple[str, V | None]]], now: float) -> list[Ask]:
        """The log has so many more steps, at *seq*, with these changes."""
        self._now = now
        self._committed += len(effects)
        self._own = seq
        queue = self._queue
        for changes in effects:
            for key, value in changes:
                # Put last again: the bucket's last entry must be of the latest commit begun.
                queue.pop(key, None)
                queue[key] = (value, seq)
        if self._rests_on is not None:
            self._read_if_committed()
        elif self.idle:
            self._go_on()
        return self._take()

    def leading(self, state: S, own: int, now: float) -> list[Ask]:
        """This replica leads; *own* is the chain's last commit."""
        self.following()
        self._now, self._state, self._own = now, state, own
        self._decided = self._committed = 0
        # The last entry may be of a later leader that is comparing, which does not say its commit.
        self._stand_again(self._repair)
        return self._take()

    def following(self) -> None:
        """This replica leads no more: write nothing."""
        self._queue.clear()
        self._drop_all()
        self._suspect = self._looking = self.idle = False
        self._state = None

    # what the server tells

    def answer(self, number: int, answer: Answer, now: float) -> list[Ask]:
        self._now = now
        then = self._open.pop(number, None)
        if then is not None:
            then(answer)
        return self._take()

    def tick(self, now: float) -> list[Ask]:
        """It is `deadline`, or later."""
        self._now = now
        due = [alarm for alarm in self._alarms if alarm[0] <= now]
        self._alarms = [alarm for alarm in self._alarms if alarm[0] > now]
        self.deadline = min((at for at, _ in self._alarms), default=None)
        for _, what in due:
            what()
        return self._take()

    def failed(self, now: float) -> None:
        """The projection itself has a fault: that must not leave readers with what is no longer true."""
        self._now = now
        self._drop_all()
        self.idle = self._looking = False
        self._later(FAULT_AGAIN_S, partial(self._stand, self._compare))

    def _drop_all(self) -> None:
        """Nothing that was asked, put off or left over counts any more."""
        self._open.clear()
        self._alarms.clear()
        self.deadline = None
        self._left, self._rests_on = [], None

    def _ask(self, question: Question, then: Callable[[Answer], None]) -> None:
        self._numbers += 1
        self._open[self._numbers] = then
        self._out.append(Ask(self._numbers, question))

    def _later(self, delay_s: float, what: Callable[[], None]) -> None:
        at = self._now + delay_s
        self._alarms.append((at, what))
        if self.deadline is None or at < self.deadline:
            self.deadline = at

    def _take(self) -> list[Ask]:
        if not self._out:
            return []
        out, self._out = self._out, []
        return out

    # where the bucket stands

    def _stand(self, then: Callable[[], None]) -> None:
        """Find out where the bucket stands; wait as long as it shows a commit of a later leader."""
        self.idle = False
        self._ask(Stand(), partial(self._has_stood, then))

    def _has_stood(self, then: Callable[[], None], answer: Answer) -> None:
        if isinstance(answer, Stood):
            # A bucket older than the log may show more than the log has, and needs to be written anew.
            if not self._own < answer.confirmed <= answer.end:
                self._stood = answer
                then()
                return
            detail = f"shows commit {answer.confirmed}, {self._own} is the last known"
        else:
            detail = answer.detail if isinstance(answer, Unanswered) else ""
        log.info("projection not repaired yet", bucket=self.projection.bucket, error=detail)
        self._later(REPAIR_AGAIN_S, partial(self._stand, then))

    def _stand_again(self, then: Callable[[], None]) -> None:
        """Find out where the bucket stands, and only then whether this replica still leads.

        In this order: whoever leads after the answer writes behind what was found, so that what this
        replica then writes with the found sequence is refused.
        """
        self._stand(lambda: self._ask(Confirm(), partial(self._has_confirmed, then)))

    def _has_confirmed(self, then: Callable[[], None], answer: Answer) -> None:
        if isinstance(answer, Confirmed) and answer.leads:
            then()
        else:
            self._later(WRITE_AGAIN_S, partial(self._stand_again, then))

    # repairing

    def _repair(self) -> None:
        """Bring the bucket up to the chain's last commit, after whoever wrote it before."""
        stood = self._stood
        if stood.last and stood.whole and self._floor < stood.confirmed <= self._own:
            # Entries are written in the order of commits: only those of the last one may be incomplete.
            confirmed = stood.confirmed
            wanted = {key: entry for key, entry in self._recent.items() if entry[1] >= confirmed}
            self._write_these(wanted, "recent")
        else:
            self._compare()

    def _compare(self) -> None:
        """Compare everything, once all that it rests on is in the log."""
        assert self._state is not None
        self._rests_on = self._decided, dict(self.projection.everything(self._state))
        self._read_if_committed()

    def _read_if_committed(self) -> None:
        assert self._rests_on is not None
        if self._committed >= self._rests_on[0]:
            (_, current), self._rests_on = self._rests_on, None
            self._ask(Read(self._stood.last), partial(self._has_read, current))

    def _has_read(self, current: dict[str, V], answer: Answer) -> None:
        if not isinstance(answer, Contents):
            detail = answer.detail if isinstance(answer, Unanswered) else ""
            log.info("projection not compared yet", bucket=self.projection.bucket, error=detail)
            self._later(REPAIR_AGAIN_S, partial(self._stand_again, self._compare))
            return
        found, own = answer.found, self._own
        wanted: dict[str, tuple[V | None, int]] = {
            key: (None, own) for key in sorted(found) if key not in current
        }
        for key, value in current.items():
            if key not in found or not self._same(found[key], value):
                wanted[key] = (value, own)
        self._write_these(wanted, "all")

    def _write_these(self, wanted: dict[str, tuple[V | None, int]], how: str) -> None:
        """Write what repairs the bucket, and what was committed meanwhile, which is newer."""
        self._recent.clear()
        for key, entry in self._queue.items():
            wanted.pop(key, None)
            wanted[key] = entry
        stood = self._stood
        log.info(
            "projection checked",
            bucket=self.projection.bucket,
            by=how,
            confirmed=stood.confirmed,
            writes=len(wanted),
        )
        self._queue = {}
        compared = how == "all"
        items = [Item(k, v, seq, 0 if compared else seq) for k, (v, seq) in wanted.items()]
        if compared and not stood.whole:
            last = items[-1].seq if items else self._own
            items.append(Item(WHOLE, None, last, last))
        elif items:
            items[-1] = items[-1]._replace(of=items[-1].seq)
        self._left = items
        self._write()

    # writing

    def _go_on(self) -> None:
        """Write what is committed; when there is nothing, look at the bucket now and then."""
        if self._queue:
            self.idle = False
            self._left = [Item(key, value, seq, seq) for key, (value, seq) in self._queue.items()]
            self._queue = {}
            self._write()
        elif self._suspect:
            self._suspect = False
            self._stand_again(self._compare)
        elif not self.idle:
            self.idle = True
            self._look_later()

    def _write(self) -> None:
        if not self._left:
            self._go_on()
            return
        part = self._left[:BATCH]
        if self._suspect:
            # Who takes over before everything is compared has to know.
            part = [item._replace(of=0) for item in part]
        self._ask(Write(self._stood.last, part), partial(self._has_written, part))

    def _has_written(self, part: Sequence[Item[V]], answer: Answer) -> None:
        if isinstance(answer, Written):
            self._left = self._left[len(part) :]
            stood = self._stood
            self._stood = Stood(stood.created, answer.last, stood.whole, stood.confirmed, stood.end)
            self._write()
        elif isinstance(answer, Refused):
            self._suspect = True
            self._resume(part)
        else:
            detail = answer.detail if isinstance(answer, Unanswered) else ""
            log.info("projection not written", bucket=self.projection.bucket, error=detail)
            self._later(WRITE_AGAIN_S, partial(self._resume, part))

    def _resume(self, part: Sequence[Item[V]]) -> None:
        """Go on writing, if the bucket is still the one that it was."""
        self._stand_again(partial(self._resumed, self._stood, part))

    def _resumed(self, before: Stood, part: Sequence[Item[V]]) -> None:
        stood = self._stood
        marks = any(item.key == WHOLE for item in self._left)
        if stood.created != before.created or not (stood.whole or marks):
            self._left = []
            self._compare()
            return
        nothing = stood.last == before.last
        all_of_it = (stood.last, stood.confirmed) == (before.last + len(part), part[-1].of)
        self._suspect = self._suspect or not (nothing or all_of_it)
        self._write()

    def _look_later(self) -> None:
        if not self._looking:
            self._looking = True
            self._later(LOOK_S, self._look)

    def _look(self) -> None:
        self._looking = self.idle
        if self.idle:
            self._ask(Look(), partial(self._has_looked, self._stood))

    def _has_looked(self, before: Stood, answer: Answer) -> None:
        """Find out whether the bucket was deleted, emptied, or written by somebody else."""
        self._looking = False
        if not self.idle:
            return
        if self._stood is before and not isinstance(answer, Unanswered) and not _unchanged(before, answer):
            log.warning("bucket is not as it was left, comparing everything", bucket=self.projection.bucket)
            self._stand_again(self._compare)
        else:
            self._look_later()


def _unchanged(before: Stood, answer: Answer) -> bool:
    """Tell whether the bucket is the one that was written, and nobody else wrote to it."""
    if not isinstance(answer, Stood):
        return False
    return answer.whole and (answer.created, answer.last) == (before.created, before.last)
