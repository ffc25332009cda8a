"""Reports: published until the log has them.

A log drops a message whose id it has, whatever it is about. Ids are made of a job's uid, which is made of a
sequence, and where an older log was put back, sequences are given out a second time: an executor that still
ran something then has used ids that another job's reports have now. So what was dropped is looked for among
what the log says of the job, and goes under another id if it is not there.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import structlog

from sluice.events.base import JobKey
from sluice.events.job import JobEvent

from ._book import Book
from ._desk import Desk, Then
from ._ownership import another_id
from .actions import Answer, JobRead, Publish, ReadJob, Stored, Unanswered

AGAIN_S = 0.5

log = structlog.get_logger("sluice.sdk.executor")

Done = Callable[[bool], None]
"""Told whether the log has the report; not, if this executor is about to end and nobody answers."""


class Reports:
    def __init__(self, desk: Desk, book: Book) -> None:
        self._desk, self._book = desk, book

    def say(self, job: JobKey, data: JobEvent, message_id: str, since: int, done: Done) -> None:
        """Publish a report, at least once; go on with *done*. *since*: as of `publish`."""
        request = Publish(job, data, message_id)
        self.publish(request, since, partial(self._said, request, since, done))

    def _said(self, request: Publish, since: int, done: Done, answer: Answer) -> None:
        if isinstance(answer, Stored):
            done(True)
            return
        detail = answer.detail if isinstance(answer, Unanswered) else "refused"
        if self._book.ending:
            # The claim stays, and the next life of this executor reports it; or this one is lost.
            log.error("report not published", job=request.job, error=detail)
            done(False)
            return
        log.warning("report not published, trying again", job=request.job, error=detail)
        again = partial(self.say, request.job, request.data, request.message_id, since, done)
        self._desk.later(AGAIN_S, again)

    def publish(self, request: Publish, since: int, then: Then) -> None:
        """Publish once, under the id asked for or the next one that is free; go on with the answer.

        *since*: where the log can speak first of what the report is about.
        """
        self._desk.ask(request, partial(self._published, request, since, then))

    def _published(self, request: Publish, since: int, then: Then, answer: Answer) -> None:
        if isinstance(answer, Stored) and answer.before:
            read = ReadJob(request.job, since)
            self._desk.ask(read, partial(self._dropped, request, since, then, answer))
        else:
            then(answer)

    def _dropped(self, request: Publish, since: int, then: Then, stored: Stored, answer: Answer) -> None:
        """The log had the id: of this very report, or of one that a job of another history is about."""
        if not isinstance(answer, JobRead):
            then(answer if isinstance(answer, Unanswered) else Unanswered("log not read"))
        elif any(told.message_id == request.message_id for told in answer.told):
            then(stored)
        else:
            log.warning("id was used by another history", job=request.job, id=request.message_id)
            other = msgspec.structs.replace(request, message_id=another_id(request.message_id))
            self.publish(other, since, then)
