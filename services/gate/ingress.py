"""Takes what parties say of their jobs, and puts it into the log: the acknowledgement is the log's own.

Each party has a connection of its own here, so that one who says too much fills its own, and nobody else
waits behind it. Nothing is kept or waited for: a message is looked at and sent on, and the acknowledgement
comes back on a subject that holds whom it is for.
"""

import secrets
import time
from collections.abc import Iterable

import structlog

from sluice.log.nats.connection import Connection, Link
from sluice.log.nats.jetstream_api import refusal
from sluice.log.nats.protocol import Frame, publish_frame
from sluice.rights.names import Names
from sluice.rights.parties import Party

from .meter import Meter
from .offers import MALFORMED, Refused, Taken, judge_offer, subject_of
from .questions import narrow, unanswered

TOO_MANY = 429
QUESTIONS_AT_ONCE = 4
"""Seconds' worth of questions that a party may ask at once."""
_OFFERS, _ACKS = b"2", b"3"
SAY_S = 1.0
"""Refusals are logged so often: a party that is refused a thousand times a second says nothing new."""

log = structlog.get_logger("sluice.gate.ingress")


class Door:
    """The way in of one party."""

    def __init__(self, url: str, names: Names, party: Party, gates: int, questions_per_s: float) -> None:
        self._names, self._gates = names, gates
        self._own = names.party(party.user)
        self.taken = self.refused = 0
        self._said_at, self._unsaid = 0.0, 0
        self.party = party
        self.meter = self._metered(party)
        self._questions = Meter(questions_per_s, questions_per_s * QUESTIONS_AT_ONCE)
        self._inbox = f"_INBOX.{secrets.token_hex(8)}."
        self._acks = len(self._inbox)
        self._link = Link(url, f"gate-{party.user}", sink=self._sink, on_connect=self._connected)

    def _metered(self, party: Party) -> Meter | None:
        """Return the party's rate: this gate's part of it, as the server shares messages out among gates."""
        bounds = party.bounds
        if not bounds.per_s:
            return None
        return Meter(bounds.per_s / self._gates, (bounds.burst or bounds.per_s) / self._gates)

    def change(self, party: Party) -> None:
        """Go by other bounds from now on."""
        if party.bounds != self.party.bounds:
            self.meter = self._metered(party)
        self.party = party

    async def open(self) -> None:
        await self._link.connection()

    async def close(self) -> None:
        await self._link.close()

    def _connected(self, connection: Connection) -> None:
        words = self._own.encode(), _OFFERS, self._inbox.encode(), _ACKS
        connection.write(b"SUB %s> gate %s\r\nSUB %s> %s\r\n" % words)

    def _sink(self, frames: list[Frame]) -> None:
        connection = self._link.current
        if connection is None:
            return  # who published gets no answer, and publishes again
        now = time.monotonic()
        connection.write(
            b"".join(
                self._answered(frame, now) if frame.sid == _OFFERS else self._acknowledged(frame)
                for frame in frames
            )
        )

    def _acknowledged(self, frame: Frame) -> bytes:
        """Return an acknowledgement to be sent to whom it is for.

        The log cannot answer there itself: the server takes no messages with such a reply subject (`_R_.`).
        """
        reply, header, payload = frame.subject[self._acks :], frame.header, frame.payload
        if header:
            sizes = len(header), len(header) + len(payload)
            return b"HPUB %s %d %d\r\n%s%s\r\n" % (reply, *sizes, header, payload)
        return b"PUB %s %d\r\n%s\r\n" % (reply, len(payload), payload)

    def _answered(self, frame: Frame, now: float) -> bytes:
        """Return what is to be sent for a message: itself, or why not."""
        # Before anything else is looked at: what is too much must cost least.
        asks = frame.subject.startswith(b"query.", len(self._own))
        meter = self.meter if not asks else self._questions
        if meter is not None and (wait_s := meter.take(now)):
            what = "ask so many questions" if asks else f"send {self.party.bounds.per_s:g} messages a second"
            why = f"{self.party.user} may {what}; try again in {wait_s:.2f} s"
            return self._refused(frame, Refused(TOO_MANY, why), now, wait_s)
        try:
            suffix = frame.subject.decode()[len(self._own) :]
            reply = self._inbox + frame.reply.decode() if frame.reply else ""
        except UnicodeDecodeError:
            return self._refused(frame, Refused(MALFORMED, "a subject that is no UTF-8"), now)
        if asks:
            return self._asked(frame, suffix, reply, now)
        judged = judge_offer(self.party, self._names.prefix, suffix, frame.header, frame.payload)
        if isinstance(judged, Taken):
            self.taken += 1
            subject = subject_of(self._names.prefix, suffix)
            return publish_frame(subject, frame.payload, reply, judged.headers)
        return self._refused(frame, judged, now)

    def _asked(self, frame: Frame, suffix: str, reply: str, now: float) -> bytes:
        """Pass a question on to the api service, narrowed; the answer comes as an acknowledgement does."""
        narrowed = narrow(self.party, self._names.prefix, suffix, frame.payload)
        if isinstance(narrowed, Refused):
            return self._refused(frame, narrowed, now)
        return publish_frame(self._names.prefix + suffix, narrowed, reply, {})

    def _refused(self, frame: Frame, refused: Refused, now: float, wait_s: float = 0.0) -> bytes:
        self.refused += 1
        self._unsaid += 1
        if now - self._said_at >= SAY_S:
            log.warning(
                "refused",
                party=self.party.user,
                subject=repr(frame.subject[:200]),
                why=refused.why[:500],
                messages=self._unsaid,
            )
            self._said_at, self._unsaid = now, 0
        if not frame.reply:
            return b""
        asks = frame.subject.startswith(b"query.", len(self._own))
        body = unanswered(refused, wait_s) if asks else refusal(refused.code, refused.why, wait_s)
        return b"PUB %s %d\r\n%s\r\n" % (frame.reply, len(body), body)


class Ingress:
    """The doors of all parties that have one. *gates*: how many there are to share messages out among."""

    def __init__(self, url: str, cell: str, gates: int, questions_per_s: float) -> None:
        self._url, self._names = url, Names(cell)
        self._gates, self._per_s = gates, questions_per_s
        self._doors: dict[str, Door] = {}

    @property
    def taken(self) -> int:
        return sum(door.taken for door in self._doors.values())

    @property
    def refused(self) -> int:
        return sum(door.refused for door in self._doors.values())

    async def serve(self, parties: Iterable[Party]) -> None:
        """Open the doors of *parties*, and close those of others."""
        wanted = {party.user: party for party in parties if party.offers or party.asks}
        for user in [user for user in self._doors if user not in wanted]:
            await self._doors.pop(user).close()
        for user, party in wanted.items():
            if user in self._doors:
                self._doors[user].change(party)
                continue
            door = self._doors[user] = Door(self._url, self._names, party, self._gates, self._per_s)
            await door.open()

    async def close(self) -> None:
        await self.serve(())
