"""Periodic looks, beside following the changes: at claims, and at what should run."""

from collections import deque
from collections.abc import Callable
from functools import partial

import structlog

from sluice.events.base import JobKey
from sluice.protocol.dispatch import Claim, DispatchEntry, claim_key

from . import actions
from ._attempts import Attempts
from ._book import Attempt, Book, Stage, same
from ._desk import Desk
from ._ownership import begun, owner_of

LOOKED_UP = 20
"""Most waiting jobs looked up in the log at a time."""

HOLDING = (Stage.LOOK, Stage.ANNOUNCE, Stage.WORK, Stage.REPORT)

log = structlog.get_logger("sluice.sdk.executor")


class Watch:
    """Takes over claims of executors that are gone, and keeps those of this one.

    *told*: what dispatch says of a job was read. *consider*: look at a job again.
    """

    def __init__(
        self,
        desk: Desk,
        book: Book,
        attempts: Attempts,
        told: Callable[[JobKey, DispatchEntry | None], None],
        consider: Callable[[JobKey], None],
    ) -> None:
        self._desk, self._book, self._attempts = desk, book, attempts
        self._told, self._consider = told, consider
        self._missing: dict[str, float] = {}
        self._looked_up: dict[JobKey, DispatchEntry] = {}
        self._compared = 0.0

    def begin(self) -> None:
        self._compared = self._desk.now
        self._arm()

    def _arm(self) -> None:
        settings = self._book.settings
        self._desk.later(min(settings.check_s, settings.takeover_s / 4), self._tick)

    def _tick(self) -> None:
        if self._book.ending:
            return
        if self._book.foreign:
            self._desk.ask(actions.ListHeartbeats(), self._who_is_there)
        else:
            self._missing.clear()
            self._look_up()

    # claims of others

    def _who_is_there(self, answer: actions.Answer) -> None:
        if isinstance(answer, actions.Present):
            self._take_over(answer.executors, deque(self._book.foreign.items()))
        else:
            self._not_checked(answer)

    def _take_over(self, present: frozenset[str], left: deque[tuple[JobKey, DispatchEntry]]) -> None:
        """Take over claims of executors that are gone. What the log knows of is requeued before that."""
        while left:
            job, entry = left.popleft()
            if self._book.foreign.get(job) is entry:
                key = claim_key(job, entry.uid, entry.attempt)
                self._desk.ask(actions.GetClaim(key), partial(self._found, present, left, job, entry))
                return
        self._look_up()

    def _found(
        self,
        present: frozenset[str],
        left: deque[tuple[JobKey, DispatchEntry]],
        job: JobKey,
        entry: DispatchEntry,
        answer: actions.Answer,
    ) -> None:
        if not isinstance(answer, actions.HasClaim | actions.Absent):
            self._not_checked(answer)
            return
        if not self._book.ending and self._book.foreign.get(job) is entry:
            if isinstance(answer, actions.Absent):
                # It was done and has expired, or the bucket was lost; but it is asked for as before.
                del self._book.foreign[job]
                self._consider(job)
            elif self._may_take(entry) and self._is_free(answer.claim, present):
                log.info("taking over", job=job, attempt=entry.attempt, owner=answer.claim.executor)
                del self._book.foreign[job]
                self._missing.pop(answer.claim.executor, None)
                self._attempts.start(entry, answer.revision)
        self._take_over(present, left)

    def _may_take(self, entry: DispatchEntry) -> bool:
        serves = entry.state == "Suspended" or self._book.serves(entry)
        return serves and entry.job not in self._book.attempts

    def _is_free(self, claim: Claim, present: frozenset[str]) -> bool:
        """Tell whether the holder of a claim is gone: long enough, or an earlier process of this name.

        Or it is this one, which had ended the attempt in what the log was before an older one was put back,
        and others have put its claim back: the log says what is to be done.
        """
        who = self._book.who
        if claim.state == "Done":
            return False
        if claim.executor == who.name:
            return True
        if claim.executor in present:
            self._missing.pop(claim.executor, None)
            return False
        since = self._missing.setdefault(claim.executor, self._desk.now)
        return self._desk.now - since >= self._book.settings.takeover_s

    # what waits for room

    def _look_up(self) -> None:
        """Look up what has waited for room: an earlier process may have begun it, and the claim be lost.

        Settling that needs no room, and nobody else may do it.
        """
        book = self._book
        self._looked_up = {
            job: entry
            for job, entry in self._looked_up.items()
            if job in book.waiting and same(book.wanted[job], entry)
        }
        new = [job for job in book.waiting if job not in self._looked_up]
        self._next_up(deque(new[:LOOKED_UP]))

    def _next_up(self, left: deque[JobKey]) -> None:
        while left:
            job = left.popleft()
            entry = self._book.wanted.get(job)
            if entry is not None and job in self._book.waiting:
                request = actions.ReadJob(job, begun(entry))
                self._desk.ask(request, partial(self._looked, left, job, entry))
                return
        self._end_tick()

    def _looked(self, left: deque[JobKey], job: JobKey, entry: DispatchEntry, answer: actions.Answer) -> None:
        if not isinstance(answer, actions.JobRead):
            self._not_checked(answer)
            return
        book = self._book
        if not book.ending and job in book.waiting and same(book.wanted[job], entry):
            self._looked_up[job] = entry
            owner = owner_of(answer.told, entry.uid, entry.attempt)
            if owner is not None and owner.executor == book.who.name:
                del book.waiting[job]
                self._attempts.start(book.wanted[job])
        self._next_up(left)

    # what this one has

    def _end_tick(self) -> None:
        self._arm()
        if self._desk.now - self._compared >= self._book.settings.check_s:
            self._compared = self._desk.now
            self.compare()

    def _not_checked(self, answer: actions.Answer) -> None:
        detail = answer.detail if isinstance(answer, actions.Unanswered) else ""
        log.info("not checked", error=detail)
        self._end_tick()

    def compare(self) -> None:
        """Compare every attempt with what is wanted now, and with its claim."""
        self._compare_next(deque(self._book.attempts.values()))

    def _compare_next(self, left: deque[Attempt]) -> None:
        while left:
            attempt = left.popleft()
            if self._holds(attempt):
                self._desk.ask(actions.GetEntry(attempt.entry.job), partial(self._wanted, left, attempt))
                return

    def _holds(self, attempt: Attempt) -> bool:
        return (
            self._book.attempts.get(attempt.entry.job) is attempt
            and attempt.stage in HOLDING
            and attempt.ending != "lost"
        )

    def _wanted(self, left: deque[Attempt], attempt: Attempt, answer: actions.Answer) -> None:
        match answer:
            case actions.HasEntry(entry):
                self._told(attempt.entry.job, entry)
            case actions.Absent():
                self._told(attempt.entry.job, None)
            case _:
                pass
        if self._holds(attempt):
            self._desk.ask(actions.GetClaim(attempt.key), partial(self._keep, left, attempt))
        else:
            self._compare_next(left)

    def _keep(self, left: deque[Attempt], attempt: Attempt, answer: actions.Answer) -> None:
        """Put back a claim that is gone: what the log says is this executor's is nobody else's."""
        if self._holds(attempt):
            mine = self._book.mine()
            match answer:
                case actions.HasClaim(claim, revision) if claim == mine:
                    attempt.revision = revision
                case actions.HasClaim(_, revision) if attempt.announced:
                    self._put_back(attempt, revision)
                case actions.Absent():
                    self._put_back(attempt, 0)
                case _:
                    pass
        self._compare_next(left)

    def _put_back(self, attempt: Attempt, revision: int) -> None:
        log.warning("claim put back", job=attempt.entry.job, attempt=attempt.entry.attempt)
        request = actions.PutClaim(attempt.key, self._book.mine(), revision)
        self._desk.ask(request, partial(self._is_back, attempt))

    def _is_back(self, attempt: Attempt, answer: actions.Answer) -> None:
        if isinstance(answer, actions.Stored):
            attempt.revision = answer.revision
