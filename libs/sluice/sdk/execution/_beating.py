"""The heartbeat: by it others see that this executor is there, and it sees whether its name is its own."""

from collections.abc import Callable
from functools import partial

import structlog

from sluice.protocol.dispatch import Heartbeat

from . import actions
from ._book import Book
from ._desk import Desk
from ._lease import Lease

FIRST_AGAIN_S = 0.2

log = structlog.get_logger("sluice.sdk.executor")


class Heart:
    """*on_first*: the first beat was taken. *on_away*: others may have thought this process dead.

    *on_duplicate*: another process, of that instance, has taken over the name. Each beat renews the *lease*.
    """

    def __init__(
        self,
        desk: Desk,
        book: Book,
        on_first: Callable[[], None],
        on_away: Callable[[], None],
        on_duplicate: Callable[[str], None],
        lease: Lease,
    ) -> None:
        self._desk, self._book, self._lease = desk, book, lease
        self._on_first, self._on_away, self._on_duplicate = on_first, on_away, on_duplicate
        self._revision: int | None = None
        self._at: float | None = None
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def beat(self) -> None:
        if self._stopped:
            return
        who, settings = self._book.who, self._book.settings
        value = Heartbeat(
            name=who.name,
            instance=who.instance,
            host=who.host,
            pid=who.pid,
            flavors=tuple(settings.flavors),
            kinds=tuple(settings.kinds),
            capacity=settings.capacity,
            jobs=len(self._book.attempts),
            on_loss=settings.wish,
            lease=settings.lease,
        )
        request = actions.PutHeartbeat(value, self._revision, settings.ttl_s)
        self._desk.ask(request, partial(self._put, self._desk.now))

    def _put(self, sent: float, answer: actions.Answer) -> None:
        match answer:
            case actions.Stored(revision):
                self._revision = revision
                self._lease.renew(sent)
                self._taken()
            case actions.Refused():
                self._desk.ask(actions.GetHeartbeat(), self._found)
            case _:
                self._not_taken(answer)

    def _found(self, answer: actions.Answer) -> None:
        """Somebody else's, or one of ours: expired, forgotten by a server restarted, or never answered."""
        match answer:
            case actions.HasHeartbeat(other) if other.instance != self._book.who.instance:
                self._on_duplicate(other.instance)
            case actions.HasHeartbeat() | actions.Absent():
                self._revision = None
                self.beat()
            case _:
                self._not_taken(answer)

    def _taken(self) -> None:
        now, before, self._at = self._desk.now, self._at, self._desk.now
        self._desk.later(self._book.settings.heartbeat_s, self.beat)
        if before is None:
            self._on_first()
        elif now - before > self._book.settings.ttl_s:
            log.warning("was away", seconds=round(now - before, 1))
            self._on_away()

    def _not_taken(self, answer: actions.Answer) -> None:
        detail = answer.detail if isinstance(answer, actions.Unanswered) else ""
        log.info("heartbeat not taken", error=detail)
        first = self._at is None
        self._desk.later(FIRST_AGAIN_S if first else self._book.settings.heartbeat_s, self.beat)
