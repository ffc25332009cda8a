"""End of an attempt: its function is cancelled, then `on_stop` is called; its successor waits for that."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from ._actions import CallStop, CancelCall, Forget
from ._alarms import Alarm
from ._desk import Desk
from ._registry import Settings
from ._telling import Telling
from ._tracked_request import Calling, Held, Sending

log = structlog.get_logger("sluice.sdk.checks")

STOP_ATTEMPTS = 5


@dataclass(slots=True, eq=False)
class Ending:
    held: Held
    stops: bool
    tried: int = 0
    alarm: Alarm | None = None
    """Until when its function may take to end."""


class Endings:
    """*over*: nothing of this key is ending any more."""

    def __init__(self, desk: Desk, settings: Settings, telling: Telling, over: Callable[[str], None]) -> None:
        self._desk, self._settings, self._telling, self._over = desk, settings, telling, over
        self._by_key: dict[str, deque[Ending]] = {}
        """In the order of the attempts; the first one is at it, the others wait."""
        self._stopping: dict[int, Ending] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    @property
    def busy(self) -> bool:
        return bool(self._by_key)

    def begin(self, held: Held) -> None:
        """End what is done for a request that was withdrawn."""
        stops = held.check is not None and held.check.stopper is not None
        if held.work is None and not stops:
            self._desk.do(Forget(held.number))
            return
        ending = Ending(held, stops)
        others = self._by_key.setdefault(held.key, deque())
        others.append(ending)
        if len(others) == 1:
            self._end_work(ending)

    def _end_work(self, ending: Ending) -> None:
        held = ending.held
        work, desk = held.work, self._desk
        if isinstance(work, Calling):
            work.cancelled = True
            desk.do(CancelCall(work.number))
            ending.alarm = desk.later(self._settings.cancel_s, lambda: self._late(ending))
            return
        if isinstance(work, Sending):
            held.work = None
            self._telling.give_up(work)
        self._stop(ending)

    def _late(self, ending: Ending) -> None:
        log.error("a function ignores its cancellation", request=ending.held.key)
        ending.alarm = None
        self._stop(ending)

    def call_ended(self, held: Held) -> None:
        """The function of an attempt that was withdrawn has ended."""
        ending = self._by_key.get(held.key, (None,))[0]
        if ending is not None and ending.held is held and ending.alarm is not None:
            self._desk.alarms.cancel(ending.alarm)
            ending.alarm = None
            self._stop(ending)

    def _stop(self, ending: Ending) -> None:
        if not ending.stops:
            self._ended(ending)
            return
        ending.tried += 1
        number = self._desk.number()
        self._stopping[number] = ending
        self._desk.do(CallStop(number, ending.held.number, ending.held.request, ending.tried))

    def stop_ended(self, number: int, *, released: bool) -> None:
        """`on_stop` has come to its end; it has failed if it has not *released* what was taken."""
        ending = self._stopping.pop(number, None)
        if ending is None:
            return
        if released or ending.tried >= STOP_ATTEMPTS:
            self._ended(ending)
        else:
            delay_s = min(self._settings.backoff_s * 2.0 ** (ending.tried - 1), 30.0)
            self._desk.later(delay_s, lambda: self._stop(ending))

    def _ended(self, ending: Ending) -> None:
        key = ending.held.key
        self._desk.do(Forget(ending.held.number))
        others = self._by_key[key]
        others.popleft()
        if others:
            self._end_work(others[0])
        else:
            del self._by_key[key]
            self._over(key)
