"""Reports: published until the log has them."""

from collections.abc import Callable
from functools import partial

import structlog

from sluice.events.base import JobKey
from sluice.events.job import JobEvent

from ._book import Book
from ._desk import Desk
from .actions import Answer, Publish, Stored, Unanswered

AGAIN_S = 0.5

log = structlog.get_logger("sluice.sdk.executor")

Done = Callable[[bool], None]
"""Told whether the log has the report; not, if this executor is about to end and nobody answers."""


class Reports:
    def __init__(self, desk: Desk, book: Book) -> None:
        self._desk, self._book = desk, book

    def say(self, job: JobKey, data: JobEvent, message_id: str, done: Done) -> None:
        """Publish a report, at least once; go on with *done*."""
        request = Publish(job, data, message_id)
        self._desk.ask(request, partial(self._said, request, done))

    def _said(self, request: Publish, done: Done, answer: Answer) -> None:
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
        again = partial(self.say, request.job, request.data, request.message_id, done)
        self._desk.later(AGAIN_S, again)
