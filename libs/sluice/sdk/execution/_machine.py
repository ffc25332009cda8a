"""An executor without input or output: what it does follows from what it is told, and when.

Every method is told the time (seconds, of a clock that never goes back) and returns what is to be done,
in order. `deadline` says when to call `tick` although nothing happens.
"""

from collections import deque
from collections.abc import Iterable
from functools import partial

import structlog

from sluice.events.base import JobKey
from sluice.events.job import JobEvent
from sluice.protocol.dispatch import DispatchEntry

from ._attempts import Attempts
from ._beating import Heart
from ._book import Attempt, Book, ExecutorSettings, Identity, manifest_of, pods_of, same
from ._desk import Desk
from ._lease import Lease
from ._outcome import Outcome
from ._ownership import begun
from ._reports import Reports
from ._settling import Settling
from ._watching import Watch
from .actions import Action, Answer, Ended, Follow, Judge, Judged, RemoveHeartbeat, Reported

JUDGE_AGAIN_S = 0.2

log = structlog.get_logger("sluice.sdk.executor")


class Machine:
    """One process of an executor, from `begin` to the action `Ended`."""

    def __init__(self, who: Identity, settings: ExecutorSettings, *, judges: bool = False) -> None:
        self._desk = Desk()
        self.book = Book(who, settings)
        self._reports = Reports(self._desk, self.book)
        self._settling = Settling(self._desk, self.book, self._reports)
        self._attempts = Attempts(
            self._desk, self.book, self._reports, self._settling, self._told, self._left
        )
        self._watch = Watch(self._desk, self.book, self._attempts, self._told, self._consider)
        self._lease = Lease(self._desk, self.book, self._lease_ends)
        self._heart = Heart(
            self._desk, self.book, self._beats, self._watch.compare, self._replaced_by, self._lease
        )
        self._begun = self._retiring = False
        self._duplicate = ""
        self._judges = judges
        self._fit: dict[JobKey, tuple[str, int]] = {}
        """Jobs that can be run here, and the manifests that were judged."""
        self._filling: deque[JobKey] | None = None
        self._room = False
        """Something may fit now that did not before."""

    @property
    def deadline(self) -> float | None:
        """When to call `tick`; None: not before anything else happens."""
        return self._desk.deadline

    @property
    def ended(self) -> bool:
        """Whether it has let go of everything: no call leads to an action any more."""
        return self._desk.closed

    # what it is told

    def begin(self, now: float) -> list[Action]:
        """Take over one's own name, settle what an earlier life left, and then follow dispatch."""
        self._at(now)
        self._begun = True
        if self.book.ending:
            self._end_if_over()
        else:
            self._heart.beat()
        return self._turn()

    def dispatched(self, changes: Iterable[tuple[JobKey, DispatchEntry | None]], now: float) -> list[Action]:
        """What each of these jobs should be doing now. A deletion counts, silence does not."""
        self._at(now)
        if not self.book.ending:
            for job, entry in changes:
                self._told(job, entry)
        return self._turn()

    def answer(self, number: int, answer: Answer, now: float) -> list[Action]:
        """The answer to `Ask(number, ...)`."""
        self._at(now)
        self._desk.answered(number, answer)
        return self._turn()

    def work_ended(self, work: int, outcome: Outcome | None, now: float) -> list[Action]:
        """What `StartWork` began has ended: with *outcome*, or because it was cancelled."""
        self._desk.at(now)
        if self._lease.over and outcome is not None and not outcome.success:
            # Ended for want of a lease, maybe by others that saw it: the job has not failed.
            outcome = None
        self._attempts.work_ended(work, outcome)
        self._lease.look()
        return self._turn()

    def report(self, job: JobKey, data: JobEvent, message_id: str, now: float) -> tuple[int, list[Action]]:
        """Publish what work says of its attempt; `Reported` with the number returned follows."""
        self._at(now)
        number, attempt = self._desk.number(), self.book.attempts.get(job)
        since = begun(attempt.entry) if attempt is not None else 1
        self._reports.say(job, data, message_id, since, lambda said: self._desk.do(Reported(number, said)))
        return number, self._turn()

    def tick(self, now: float) -> list[Action]:
        """It is `deadline`, or later."""
        self._at(now)
        self._desk.ring()
        return self._turn()

    def stop(self, now: float) -> list[Action]:
        """End in order: what runs is stopped and reported, so that it runs elsewhere."""
        self._at(now)
        self._end("stop")
        return self._turn()

    def abandon(self, now: float) -> list[Action]:
        """End what runs, and report nothing."""
        self._at(now)
        self._end("abandon")
        return self._turn()

    def _at(self, now: float) -> None:
        """It is *now*: whatever has come in between, nothing goes on without a lease."""
        self._desk.at(now)
        self._lease.look()

    def _turn(self) -> list[Action]:
        """Start what fits, and return what is to be done."""
        if self._room and self._filling is None:
            self._fill()
        return self._desk.take()

    # life

    def _end(self, how: str) -> None:
        if self.book.ending != how and self.book.ending != "abandon":
            self.book.ending = how
            self.book.waiting.clear()
            for attempt in list(self.book.attempts.values()):
                self._attempts.end(attempt, "stop" if how == "stop" else "lost")
            self._end_if_over()

    def _beats(self) -> None:
        self._settling.everything(self._settled)

    def _settled(self) -> None:
        if not self.book.ending:
            self._desk.do(Follow())
            self._watch.begin()

    def _lease_ends(self, within_s: float) -> None:
        settings = self.book.settings
        why = f'Executor "{self.book.who.name}" could not report for {settings.lasts_s - settings.stop_s:g} s'
        self._attempts.give_up(within_s, why)

    def _replaced_by(self, instance: str) -> None:
        self._duplicate = instance
        self._end("abandon")

    def _end_if_over(self) -> None:
        if not self.book.ending or self.book.attempts or not self._begun or self._retiring:
            return
        self._heart.stop()
        self._retiring = True
        if self.book.ending == "stop":
            self._desk.ask(RemoveHeartbeat(), self._retired)
        else:
            self._retired(None)

    def _retired(self, _: Answer | None) -> None:
        self._desk.do(Ended(self._duplicate))
        self._desk.close()

    # jobs

    def _told(self, job: JobKey, entry: DispatchEntry | None) -> None:
        if entry is not None and (entry.state == "Running" or entry.stop):
            self.book.wanted[job] = entry
        else:
            self.book.wanted.pop(job, None)
            self.book.unfit.pop(job, None)
            self._fit.pop(job, None)
        self._consider(job)

    def _consider(self, job: JobKey) -> None:
        """Do what follows from what is wanted of the job and what runs of it."""
        book = self.book
        entry, attempt = book.wanted.get(job), book.attempts.get(job)
        book.waiting.pop(job, None)
        foreign = book.foreign.get(job)
        if foreign is not None and (entry is None or not same(entry, foreign)):
            del book.foreign[job]
        if attempt is not None:
            self._goes_on(attempt, entry)
        elif entry is None or book.ending:
            return
        elif job in book.foreign:
            book.foreign[job] = entry
        elif entry.state == "Suspended":
            self._attempts.start(entry)
        elif book.serves(entry):
            book.waiting[job] = None
            self._room = True

    def _goes_on(self, attempt: Attempt, entry: DispatchEntry | None) -> None:
        if entry is None or not same(entry, attempt.entry):
            self._attempts.end(attempt, "lost")
        elif entry.state == "Suspended":
            self._attempts.end(attempt, "stop")
        else:
            self._attempts.resize(attempt, entry)
            self._room = True

    def _left(self, attempt: Attempt) -> None:
        job = attempt.entry.job
        newest = self.book.wanted.get(job)
        # What was followed may have been behind of what was read: who was taken for lost is wanted still.
        if newest is not None and (attempt.ending == "lost" or not same(newest, attempt.entry)):
            self._consider(job)
        self._room = True
        self._end_if_over()

    # room

    def _fill(self) -> None:
        """Take work that waits, as long as there is room; who is busier hesitates longer."""
        if not self.book.leased:
            return
        self._room = False
        if self.book.waiting:
            self._filling = deque(self.book.waiting)
            self._fill_on()

    def _fill_on(self) -> None:
        book = self.book
        while self._filling:
            job = self._filling.popleft()
            entry = book.wanted.get(job)
            if entry is None or job not in book.waiting or not self._has_room(entry):
                continue
            if book.used:
                self._desk.later(min(0.1, 0.004 * book.used), partial(self._start, job, entry))
                return
            self._start_waiting(job, entry)
        self._filling = None

    def _has_room(self, entry: DispatchEntry) -> bool:
        capacity, used, pods = self.book.settings.capacity, self.book.used, pods_of(entry)
        if capacity and pods > capacity and not used:
            log.warning("job needs more than this capacity", job=entry.job, pods=pods)
        return not capacity or used + pods <= capacity

    def _start(self, job: JobKey, entry: DispatchEntry) -> None:
        """Start after the hesitation, if nothing has come in between."""
        free = self.book.leased and self._has_room(entry)
        if job in self.book.waiting and self.book.wanted.get(job) is entry and free:
            self._start_waiting(job, entry)
        elif not self.book.leased:
            self._room = True
        self._fill_on()

    def _start_waiting(self, job: JobKey, entry: DispatchEntry) -> None:
        del self.book.waiting[job]
        if self._judges and self._fit.get(job) != manifest_of(entry):
            self._desk.ask(Judge(entry), partial(self._judged, entry))
        else:
            self._attempts.start(entry)

    def _judged(self, entry: DispatchEntry, answer: Answer) -> None:
        """Go on with a job that can be run here, if it is wanted still; leave alone one that cannot."""
        job = entry.job
        if not isinstance(answer, Judged):
            self._desk.later(JUDGE_AGAIN_S, partial(self._consider, job))
            return
        if job in self.book.wanted:
            (self._fit if answer.fit else self.book.unfit)[job] = manifest_of(entry)
            self._consider(job)
