"""Verdicts on their way to the log: each under an id of its own, until the log has it or refuses it."""

from collections.abc import Callable

import structlog

from sluice.protocol.checks import CheckVerdict

from ._actions import CancelPublish, Found, Publication, Publish, Refused, Unanswered
from ._desk import Desk
from ._metrics import Numbers
from ._tracked_request import Held, Sending
from ._verdict_messages import FINAL, Said, message_id, to_verdict
from ._verdicts import Verdict

log = structlog.get_logger("sluice.sdk.checks")

RETRY_S = 0.2
"""When to publish again what was not acknowledged."""


class Telling:
    """*done*: what was to be said is in the log. *refused*: it is not, for this reason."""

    def __init__(
        self,
        desk: Desk,
        numbers: Numbers,
        done: Callable[[Held], None],
        refused: Callable[[Held, str], None],
    ) -> None:
        self._desk, self._numbers = desk, numbers
        self._done, self._refused = done, refused
        self._open: dict[int, Sending] = {}

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def say(self, held: Held, answer: Verdict, after_s: float | None, *, of_failure: bool = False) -> None:
        """Publish a verdict, if it differs from the last one; what is next comes when the log has it."""
        verdict = to_verdict(held.request, answer)
        said = held.said
        if said is not None and same(said.verdict, verdict):
            held.said = Said(said.verdict, said.at, said.seq, after_s)
            held.work = None
            self._said(held, of_failure=of_failure)
        else:
            self._send(held, verdict, after_s, of_failure)

    def _said(self, held: Held, *, of_failure: bool) -> None:
        """The log has it. A final verdict is not over before it has had its effect."""
        if not of_failure and held.next() != "settle":
            held.failures = 0
        self._done(held)

    def _send(self, held: Held, verdict: CheckVerdict, after_s: float | None, of_failure: bool) -> None:
        # Before it is sent: whatever becomes of it, the id is used up.
        held.verdicts += 1
        ident = message_id(held.request, held.verdicts)
        sending = Sending(self._desk.number(), held, ident, verdict, after_s, held.said, of_failure)
        held.work = sending
        held.said = Said(verdict, self._desk.wall, 0, after_s)
        self._open[sending.number] = sending
        self._publish(sending)

    def _publish(self, sending: Sending) -> None:
        if self._open.get(sending.number) is sending:
            self._desk.do(Publish(sending.number, sending.ident, sending.verdict, sending.after_s))

    def published(self, number: int, answer: Publication) -> None:
        """What became of `Publish(number, ...)`."""
        sending = self._open.get(number)
        if sending is None:
            return
        if isinstance(answer, Unanswered):
            self._desk.later(RETRY_S, lambda: self._publish(sending))
            return
        del self._open[number]
        held = sending.held
        held.work = None
        if isinstance(answer, Refused):
            held.said = sending.before
            if sending.of_failure:
                log.error("verdict refused", error=answer.what, **about(held))
                self._done(held)
            else:
                self._refused(held, answer.what)
        else:
            self._stored(sending, answer)

    def _stored(self, sending: Sending, found: Found) -> None:
        held, verdict = sending.held, sending.verdict
        if _whose(found.verdict) != _whose(verdict):
            # The id was used for another request, in what the log was before an older one was put back.
            held.said = sending.before
            self._send(held, verdict, sending.after_s, sending.of_failure)
            return
        if same(found.verdict, verdict):
            self._numbers.verdicts[verdict.state] += 1
            held.said = Said(verdict, self._desk.wall, found.seq, sending.after_s)
            log.info(
                "verdict",
                state=verdict.state,
                message=verdict.message,
                id=sending.ident,
                seq=found.seq,
                **about(held),
            )
            self._said(held, of_failure=sending.of_failure)
            return
        # A predecessor's, that was on its way when this process took over. It was first.
        self._numbers.repeated += 1
        held.said = Said(found.verdict, self._desk.wall, found.seq, sending.after_s)
        if found.verdict.state in FINAL:
            self._done(held)
        else:
            self._send(held, verdict, sending.after_s, sending.of_failure)

    def give_up(self, sending: Sending) -> None:
        """Wait no more for a verdict whose attempt is over."""
        del self._open[sending.number]
        self._desk.do(CancelPublish(sending.number))


def _whose(verdict: CheckVerdict) -> tuple[str, str, str, int]:
    """Return which request a verdict is about."""
    return verdict.workload, verdict.uid, verdict.check, verdict.attempt


def about(held: Held) -> dict[str, object]:
    """Return what log lines say of an attempt."""
    request = held.request
    name = f"{request.workload.namespace}/{request.workload.name}"
    return {"workload": name, "check": request.check, "attempt": request.attempt}


def same(one: CheckVerdict, other: CheckVerdict) -> bool:
    """Tell whether two verdicts of one attempt say the same."""
    return (
        one.state == other.state
        and one.reason == other.reason
        and one.message == other.message
        and one.requeue_after_seconds == other.requeue_after_seconds
        and list(one.pod_set_updates) == list(other.pod_set_updates)
    )
