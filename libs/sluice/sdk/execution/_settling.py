"""Settling of what earlier processes of this executor left: ended, and reported, one attempt at a time."""

from collections import deque
from collections.abc import Callable
from functools import partial

import structlog

from sluice.events.job import JobEvent, JobStopped
from sluice.protocol.dispatch import Claim, is_claim_key, job_of_key

from . import actions
from ._book import Book
from ._desk import Desk
from ._outcome import Held, Outcome, finished
from ._ownership import Owner, born, owner_of
from ._reports import AGAIN_S, Reports

RETRY_S = 0.2
KEEP_DONE_S = 600
"""A claim stays so long after its attempt, for executors that hear late of the attempt's end."""

log = structlog.get_logger("sluice.sdk.executor")

Then = Callable[[], None]


class Settling:
    """Settles claims of earlier processes: those found at the start, and those that turn up later."""

    def __init__(self, desk: Desk, book: Book, reports: Reports) -> None:
        self._desk, self._book, self._reports = desk, book, reports
        self._queue: deque[tuple[Held, bool, Then]] = deque()
        self._busy = False
        self._trouble = ""
        """Why claims could not be read, as was said last."""

    def everything(self, then: Then) -> None:
        """Settle all claims of earlier processes under this name; asks until somebody answers."""
        self._desk.ask(actions.ListClaims(), partial(self._listed, then))

    def _listed(self, then: Then, answer: actions.Answer) -> None:
        if not isinstance(answer, actions.HasClaims):
            detail = answer.detail if isinstance(answer, actions.Unanswered) else ""
            if detail != self._trouble:
                self._trouble = detail
                log.warning("claims not read, trying again", name=self._book.who.name, error=detail)
            if not self._book.ending:
                self._desk.later(RETRY_S, partial(self.everything, then))
            return
        who = self._book.who
        left = [
            _held(key, revision)
            for key, claim, revision in answer.claims
            if claim.executor == who.name
            and claim.instance != who.instance
            and claim.state == "Active"
            and is_claim_key(key)
        ]
        log.info("executor ready", name=who.name, instance=who.instance, earlier=len(left))
        for held in left:
            self._queue.append((held, False, _nothing))
        self._queue.append((_NOTHING_LEFT, False, then))
        self._next()

    def recover(self, held: Held, then: Then) -> None:
        """Settle one attempt that the log says an earlier process has begun."""
        self._queue.append((held, True, then))
        self._next()

    def _next(self) -> None:
        if self._busy or not self._queue:
            return
        held, begun, then = self._queue.popleft()
        if held is _NOTHING_LEFT:
            then()
            self._next()
            return
        self._busy = True
        if begun:
            self._recover(held, then)
        else:
            self._read(held, then)

    def _read(self, held: Held, then: Then) -> None:
        """A claim says that an earlier process wanted the attempt; the log says whose it became."""
        self._desk.ask(actions.ReadJob(held.job, held.since), partial(self._has_read, held, then))

    def _has_read(self, held: Held, then: Then, answer: actions.Answer) -> None:
        if not isinstance(answer, actions.JobRead):
            self._desk.later(RETRY_S, partial(self._read, held, then))
            return
        owner = owner_of(answer.told, held.uid, held.attempt)
        if owner is None:
            self._recover(held, then, answer.last)
        elif owner.over:
            self._done(held, then)
        elif owner.executor == self._book.who.name:
            self._recover(held, then)
        else:
            self._give_back(held, then, owner)

    def _give_back(self, held: Held, then: Then, owner: Owner) -> None:
        claim = Claim(executor=owner.executor, instance=owner.instance)
        request = actions.PutClaim(held.key, claim, held.revision)
        self._desk.ask(request, partial(self._given_back, held, then, owner))

    def _given_back(self, held: Held, then: Then, owner: Owner, answer: actions.Answer) -> None:
        # Refused: whoever has written it since is there, and keeps it right.
        if isinstance(answer, actions.Stored | actions.Refused) or self._book.ending:
            self._finished(then)
        else:
            self._desk.later(RETRY_S, partial(self._give_back, held, then, owner))

    def _recover(self, held: Held, then: Then, after: int | None = None) -> None:
        self._desk.ask(actions.Recover(held), partial(self._recovered, held, then, after))

    def _recovered(self, held: Held, then: Then, after: int | None, answer: actions.Answer) -> None:
        outcome = answer.outcome if isinstance(answer, actions.Recovered) else None
        log.info("settling earlier claim", job=held.job, attempt=held.attempt, finished=outcome is not None)
        self._report(held, then, after, outcome)

    def _report(self, held: Held, then: Then, after: int | None, outcome: Outcome | None) -> None:
        name = self._book.who.name
        data: JobEvent
        if outcome is not None:
            data = finished(outcome, held.uid, held.attempt, name)
        else:
            message = f'Executor "{name}" was restarted'
            data = JobStopped(attempt=held.attempt, uid=held.uid, executor=name, message=message)
        if after is None:
            self._reports.say(held.job, data, held.report, held.since, partial(self._said, held, then))
            return
        request = actions.Publish(held.job, data, held.report, after)
        self._reports.publish(request, held.since, partial(self._reported, held, then, after, outcome))

    def _said(self, held: Held, then: Then, in_log: bool) -> None:
        if in_log:
            self._done(held, then)
        else:
            self._finished(then)

    def _reported(
        self, held: Held, then: Then, after: int, outcome: Outcome | None, answer: actions.Answer
    ) -> None:
        match answer:
            case actions.Stored():
                self._done(held, then)
            case actions.Refused():
                self._read(held, then)
            case _ if self._book.ending:
                self._finished(then)
            case _:
                self._desk.later(AGAIN_S, partial(self._report, held, then, after, outcome))

    def _done(self, held: Held, then: Then) -> None:
        done = actions.PutClaim(held.key, self._book.mine("Done"), held.revision, KEEP_DONE_S)
        self._desk.ask(done, lambda _: self._finished(then))

    def _finished(self, then: Then) -> None:
        self._busy = False
        then()
        self._next()


def _held(key: str, revision: int) -> Held:
    namespace, name, uid, attempt = key.split(".")
    return Held(key, job_of_key(f"{namespace}.{name}"), uid, int(attempt), revision, born(uid))


def _nothing() -> None:
    pass


_NOTHING_LEFT = _held("-.-.-.0", 0)
