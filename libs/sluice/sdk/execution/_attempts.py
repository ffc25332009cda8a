"""One attempt after another: claim it, see that it is nobody else's, run it, report it."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import structlog

from sluice.events.base import JobKey
from sluice.events.job import JobEvent, JobPodsReady, JobStopped
from sluice.protocol.dispatch import Claim, DispatchEntry

from . import actions
from ._book import Attempt, Book, Stage, counts, pods_of
from ._desk import Desk
from ._outcome import Held, Outcome, finished
from ._ownership import Owner, begun, claim_id, nothing_said_since, owner_of
from ._reports import AGAIN_S, Reports
from ._settling import KEEP_DONE_S, Settling

RETRY_S = 0.2
REMEMBERED = 1000

log = structlog.get_logger("sluice.sdk.executor")


class Attempts:
    """Lives of attempts. *told*: what dispatch says of a job was read. *left*: an attempt is over here."""

    def __init__(
        self,
        desk: Desk,
        book: Book,
        reports: Reports,
        settling: Settling,
        told: Callable[[JobKey, DispatchEntry | None], None],
        left: Callable[[Attempt], None],
    ) -> None:
        self._desk, self._book, self._reports, self._settling = desk, book, reports, settling
        self._told, self._left = told, left
        self._works: dict[int, Attempt] = {}
        self._given_up: OrderedDict[str, None] = OrderedDict()
        """Keys of attempts that had been begun here, and were lost."""

    def start(self, entry: DispatchEntry, revision: int = 0) -> None:
        """Claim an attempt (by taking over the claim of *revision*) and do what it asks for."""
        attempt = Attempt(entry, pods_of(entry), nothing_said_since(entry), revision)
        self._book.attempts[entry.job] = attempt
        self._book.used += attempt.pods
        self._claim(attempt)

    def end(self, attempt: Attempt, how: str) -> None:
        """It is to stop, or is lost; what runs of it is ended."""
        if attempt.ending not in ("lost", how):
            attempt.ending = how
            if attempt.stage is Stage.WORK:
                self._desk.do(actions.CancelWork(attempt.work))

    def give_up(self, within_s: float, why: str) -> None:
        """End everything within so many seconds, whatever is wanted: it may be begun elsewhere then."""
        for attempt in list(self._book.attempts.values()):
            if attempt.stage in (Stage.RECOVER, Stage.REPORT, Stage.CLOSE):
                continue
            if attempt.stage is Stage.WORK:
                self._desk.do(actions.HurryWork(attempt.work, within_s))
            if not attempt.ending:
                attempt.why = why
                self.end(attempt, "stop")

    def resize(self, attempt: Attempt, entry: DispatchEntry) -> None:
        """Hand on other counts of the same attempt (WS7)."""
        before = attempt.entry
        if entry.seq < before.seq or before.state != "Running":
            return
        attempt.entry = entry
        pods = pods_of(entry)
        self._book.used += pods - attempt.pods
        attempt.pods = pods
        given = attempt.given
        if attempt.stage is Stage.WORK and given is not None and given is not entry:
            attempt.given = entry
            # Another slice of the same size: an entry that was never seen may have been smaller.
            resized = counts(given) != counts(entry) or given.workload != entry.workload
            self._desk.do(actions.ResizeWork(attempt.work, entry, resized))

    # claiming

    def _claim(self, attempt: Attempt) -> None:
        if attempt.ending == "lost":
            self._leave(attempt)
            return
        request = actions.PutClaim(attempt.key, self._book.mine(), attempt.revision)
        self._desk.ask(request, partial(self._claimed, attempt))

    def _claimed(self, attempt: Attempt, answer: actions.Answer) -> None:
        match answer:
            case actions.Stored(revision):
                attempt.revision = revision
                self._look(attempt)
            case actions.Refused():
                self._desk.ask(actions.GetClaim(attempt.key), partial(self._contested, attempt))
            case _:
                self._retry(attempt, answer, "claim not answered", self._claim)

    def _contested(self, attempt: Attempt, answer: actions.Answer) -> None:
        who = self._book.who
        match answer:
            case actions.HasClaim(claim, revision) if (
                claim.state == "Active" and claim.instance == who.instance
            ):
                # Stored by a request that was not answered.
                attempt.revision = revision
                self._look(attempt)
            case actions.HasClaim(claim, revision) if claim.executor == who.name:
                # An earlier process's, put back by somebody who found it in the log; or of an attempt that
                # was given up here, but is asked for again. The log says what is to be done.
                attempt.revision, attempt.after = revision, None
                self._claim(attempt)
            case actions.HasClaim() | actions.Absent():
                self._foreign(attempt)
            case _:
                self._retry(attempt, answer, "claim not answered", self._claim)

    def _retry(
        self, attempt: Attempt, answer: actions.Answer, what: str, again: Callable[[Attempt], None]
    ) -> None:
        detail = answer.detail if isinstance(answer, actions.Unanswered) else ""
        log.info(what, job=attempt.entry.job, error=detail)
        self._desk.later(RETRY_S, partial(again, attempt))

    # looking

    def _look(self, attempt: Attempt) -> None:
        """Make sure that it is still wanted, which what was followed may be behind of, and nobody else's."""
        attempt.stage, attempt.owner = Stage.LOOK, None
        job = attempt.entry.job
        attempt.open = 1 if attempt.after is not None else 2
        self._desk.ask(actions.GetEntry(job), partial(self._refreshed, attempt))
        if attempt.after is None:
            self._read(attempt)

    def _refreshed(self, attempt: Attempt, answer: actions.Answer) -> None:
        job = attempt.entry.job
        match answer:
            case actions.HasEntry(entry):
                self._told(job, entry)
            case actions.Absent():
                self._told(job, None)
            case _:
                pass
        self._looked(attempt)

    def _read(self, attempt: Attempt) -> None:
        if attempt.ending == "lost":
            self._looked(attempt)
            return
        entry = attempt.entry
        self._desk.ask(actions.ReadJob(entry.job, begun(entry)), partial(self._has_read, attempt))

    def _has_read(self, attempt: Attempt, answer: actions.Answer) -> None:
        if not isinstance(answer, actions.JobRead):
            self._retry(attempt, answer, "log not read", self._read)
            return
        entry = attempt.entry
        attempt.after, attempt.owner = answer.last, owner_of(answer.told, entry.uid, entry.attempt)
        self._looked(attempt)

    def _looked(self, attempt: Attempt) -> None:
        attempt.open -= 1
        if attempt.open:
            return
        owner, who = attempt.owner, self._book.who
        if attempt.ending == "lost":
            self._conclude(attempt, None)
        elif owner is not None and owner.over:
            log.info("attempt is over", job=attempt.entry.job, attempt=attempt.entry.attempt)
            self._book.foreign[attempt.entry.job] = attempt.entry
            self._close(attempt)
        elif owner is not None and (owner.executor, owner.instance) == (who.name, who.instance):
            attempt.announced = True
            if attempt.key in self._given_up:
                self._conclude(attempt, None)
            else:
                self._begin(attempt)
        elif owner is not None and owner.executor == who.name:
            self._recover(attempt)
        elif owner is not None:
            self._give_back(attempt, owner)
        elif attempt.entry.state == "Suspended" or attempt.ending:
            self._conclude(attempt, None)
        else:
            self._announce(attempt)

    def _give_back(self, attempt: Attempt, owner: Owner) -> None:
        """The bucket had lost another's claim: put it back."""
        if attempt.ending == "lost":
            self._leave(attempt)
            return
        log.warning("claim put back", job=attempt.entry.job, owner=owner.executor)
        claim = Claim(executor=owner.executor, instance=owner.instance)
        if not owner.executor:
            claim = self._book.mine("Done")
        request = actions.PutClaim(attempt.key, claim, attempt.revision)
        self._desk.ask(request, partial(self._given_back, attempt, owner))

    def _given_back(self, attempt: Attempt, owner: Owner, answer: actions.Answer) -> None:
        # While the claim says that it is held here, its owner leaves it alone.
        match answer:
            case actions.Stored():
                self._foreign(attempt)
            case actions.Refused():
                self._desk.ask(actions.GetClaim(attempt.key), partial(self._still_claimed, attempt, owner))
            case _:
                self._retry(attempt, answer, "claim not put back", partial(self._give_back, owner=owner))

    def _still_claimed(self, attempt: Attempt, owner: Owner, answer: actions.Answer) -> None:
        """The claim is of another revision: somebody else's, or put back here without an answer."""
        match answer:
            case actions.HasClaim(claim, revision) if claim == self._book.mine():
                attempt.revision = revision
                self._give_back(attempt, owner)
            case actions.HasClaim() | actions.Absent():
                self._foreign(attempt)
            case _:
                self._retry(attempt, answer, "claim not put back", partial(self._give_back, owner=owner))

    def _foreign(self, attempt: Attempt) -> None:
        self._book.foreign[attempt.entry.job] = attempt.entry
        self._leave(attempt)

    def _recover(self, attempt: Attempt) -> None:
        attempt.stage = Stage.RECOVER
        entry = attempt.entry
        held = Held(attempt.key, entry.job, entry.uid, entry.attempt, attempt.revision, begun(entry))
        self._settling.recover(held, lambda: self._leave(attempt))

    # announcing and running

    def _announce(self, attempt: Attempt) -> None:
        """Say in the log who has it, unless somebody has said anything about the job since it was read."""
        attempt.stage = Stage.ANNOUNCE
        if attempt.ending:
            self._conclude(attempt, None)
            return
        entry, who = attempt.entry, self._book.who
        data = JobPodsReady(
            attempt=entry.attempt,
            uid=entry.uid,
            executor=who.name,
            ready=False,
            on_loss=self._book.settings.wish,
        )
        name = claim_id(entry.uid, entry.attempt, who.instance)
        request = actions.Publish(entry.job, data, name, attempt.after)
        self._reports.publish(request, begun(entry), partial(self._announced, attempt))

    def _announced(self, attempt: Attempt, answer: actions.Answer) -> None:
        match answer:
            case actions.Stored(before=False):
                attempt.announced = True
                self._begin(attempt)
            case actions.Stored() | actions.Refused():
                # Said before, by this very process, it does not say that the attempt is not over.
                attempt.after = None
                self._look(attempt)
            case _ if self._book.ending:
                log.error("report not published", job=attempt.entry.job)
                self._leave(attempt)
            case _:
                # It may be there: the log says.
                attempt.after = None
                log.warning("claim not published, trying again", job=attempt.entry.job)
                self._desk.later(AGAIN_S, partial(self._look, attempt))

    def _begin(self, attempt: Attempt) -> None:
        if attempt.ending or attempt.entry.state == "Suspended" or not self._book.leased:
            self._conclude(attempt, None)
            return
        attempt.stage, attempt.work = Stage.WORK, self._desk.number()
        attempt.given = attempt.entry
        self._works[attempt.work] = attempt
        self._desk.do(actions.StartWork(attempt.work, attempt.entry))

    def work_ended(self, work: int, outcome: Outcome | None) -> None:
        """What ran has ended: by itself, with *outcome*, or because it was cancelled."""
        attempt = self._works.pop(work, None)
        if attempt is not None:
            self._conclude(attempt, outcome)

    # ending

    def _conclude(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """Report how the attempt ended; nothing if it is not ours any more."""
        entry, who = attempt.entry, self._book.who
        attempt.stage = Stage.REPORT
        if attempt.ending == "lost":
            log.info("attempt lost", job=entry.job, attempt=entry.attempt)
            if attempt.announced:
                self._remember_given_up(attempt.key)
            self._close(attempt)
            return
        data: JobEvent
        if outcome is not None:
            data = finished(outcome, entry.uid, entry.attempt, who.name)
        else:
            message = f'Executor "{who.name}" was shut down' if self._book.ending else attempt.why
            data = JobStopped(attempt=entry.attempt, uid=entry.uid, executor=who.name, message=message)
        name = f"{entry.uid}-{entry.attempt}-end"
        if attempt.announced:
            self._reports.say(entry.job, data, name, begun(entry), partial(self._concluded, attempt))
        else:
            # Nobody has begun it, as far as was read: who begins it now must find that it has stopped.
            request = actions.Publish(entry.job, data, name, attempt.after)
            self._reports.publish(request, begun(entry), partial(self._stopped, attempt))

    def _remember_given_up(self, key: str) -> None:
        """Should dispatch ask for it again (a key was deleted by mistake), it is not begun a second time."""
        self._given_up[key] = None
        if len(self._given_up) > REMEMBERED:
            self._given_up.popitem(last=False)

    def _concluded(self, attempt: Attempt, in_log: bool) -> None:
        if in_log:
            self._close(attempt)
        else:
            self._leave(attempt)

    def _stopped(self, attempt: Attempt, answer: actions.Answer) -> None:
        match answer:
            case actions.Stored():
                self._close(attempt)
            case actions.Refused():
                attempt.after = None
                self._look(attempt)
            case _ if self._book.ending:
                log.error("report not published", job=attempt.entry.job)
                self._leave(attempt)
            case _:
                self._desk.later(AGAIN_S, partial(self._conclude, attempt, None))

    def _close(self, attempt: Attempt) -> None:
        """Mark the claim as done. If that fails it only stays longer than need be."""
        attempt.stage = Stage.CLOSE
        done = actions.PutClaim(attempt.key, self._book.mine("Done"), attempt.revision, KEEP_DONE_S)
        self._desk.ask(done, lambda _: self._leave(attempt))

    def _leave(self, attempt: Attempt) -> None:
        job = attempt.entry.job
        if self._book.attempts.get(job) is attempt:
            del self._book.attempts[job]
            self._book.used -= attempt.pods
            self._left(attempt)
