"""The time at which a service decides: its machine's, within a bound of the server's, and never going back.

A clock that is wrong for two seconds must not reach the log: what was decided two hours ahead keeps every
deadline waiting for two hours, since time in the log does not go back. So the machine's clock is believed
only as far as it agrees with what the server says, carried on by a clock that nobody can set. A server's
clock that leaps is believed once it has stayed where it is for a while.
"""

import asyncio
import time
from collections.abc import Callable

import structlog

from sluice.events.base import Micros
from sluice.log.errors import EventLogError
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.jetstream import JetStreamLog

__all__ = ["BoundedClock", "LogTime", "ask_server", "follow_server", "wall_clock"]

BOUND_US = 1_000_000
"""Most that a machine's clock may differ from the server's and be believed."""

BELIEVE_US = 20_000_000
"""A clock of the server that has leapt is believed when it has agreed with itself for so long."""

ASK_S = 2.0
"""How often the server is asked for its time."""

SLOWER = 2
"""While the log is ahead of the clock, its time goes on so many times slower than the clock."""

log = structlog.get_logger("sluice.log.clock")


def wall_clock() -> Micros:
    return time.time_ns() // 1000


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_clock() -> Micros:
    """Return the time since the machine was started, its sleep included where the system knows of it."""
    return time.clock_gettime_ns(_STEADY) // 1000


class BoundedClock:
    """Tells the time; `heard` is told the server's. *steady*: a clock that nobody can set."""

    def __init__(
        self, wall: Callable[[], Micros] = wall_clock, steady: Callable[[], Micros] = steady_clock
    ) -> None:
        self._wall, self.steady = wall, steady
        self._lead: Micros | None = None
        """The server's time less the steady clock's; None until it was heard."""
        self._leapt: tuple[Micros, Micros] | None = None
        """Another such difference, and since when the server has said so."""
        self._off = False
        """Whether the machine's clock was too far off when it was last looked at."""

    def __call__(self) -> Micros:
        wall = self._wall()
        if self._lead is None:
            return wall
        expected = self._lead + self.steady()
        off = abs(wall - expected) > BOUND_US
        if off != self._off:
            self._off = off
            if off:
                log.warning("clock is off, going by the server's", ahead_s=_seconds(wall - expected))
            else:
                log.info("clock agrees with the server's again")
        return expected if off else wall

    def heard(self, at: Micros, steady: Micros) -> None:
        """The server said that it is *at* when the steady clock said *steady*."""
        lead = at - steady
        if self._lead is None or abs(lead - self._lead) <= BOUND_US:
            self._lead, self._leapt = lead, None
        elif self._leapt is None or abs(lead - self._leapt[0]) > BOUND_US:
            self._leapt = lead, steady
            ahead_s = _seconds(lead - self._lead)
            log.warning("the server's clock has leapt", ahead_s=ahead_s, believed_in_s=_seconds(BELIEVE_US))
        elif steady - self._leapt[1] >= BELIEVE_US:
            log.warning("going by the server's clock", ahead_s=_seconds(lead - self._lead))
            self._lead, self._leapt = lead, None


class LogTime:
    """The time to decide at: the clock's, but never before anything that the log says.

    A log that is ahead of the clock, since a clock was wrong once, goes on from there, more slowly. It does
    not wait for the clock: then no deadline would come until the clock is there.
    """

    def __init__(self, clock: Callable[[], Micros]) -> None:
        self.clock = clock
        self._ahead: tuple[Micros, Micros] | None = None
        """Where the log was ahead, and the clock's time then."""

    def now(self, known: Micros) -> Micros:
        """Return the time, *known* being the latest that the log has."""
        now = self.clock()
        if self._ahead is not None:
            found, began = self._ahead
            slow = found + (now - began) // SLOWER
            if known <= slow and began <= now:
                if now < slow:
                    return slow
                log.info("the clock has come up with the log")
                self._ahead = None
        if known - now <= BOUND_US:
            self._ahead = None
            return max(known, now)
        if self._ahead is None:
            log.warning(
                "the log is ahead of the clock; deadlines come late until they agree",
                ahead_s=_seconds(known - now),
                times=SLOWER,
            )
        self._ahead = known, now
        return known


async def follow_server(clock: BoundedClock, target: JetStreamLog) -> None:
    """Tell *clock* the server's time, for ever."""
    while True:
        await ask_server(clock, target)
        await asyncio.sleep(ASK_S)


async def ask_server(clock: BoundedClock, target: JetStreamLog) -> None:
    """Tell *clock* the server's time, if the server answers."""
    try:
        connection = await target.connection(api.ANSWER_S)
        began = clock.steady()
        found = await api.info(connection, target.cell.stream)
        ended = clock.steady()
    except (EventLogError, ConnectionError, TimeoutError):
        return
    # An answer that took long says nothing exact.
    if (said := found.get("ts")) and ended - began < BOUND_US:
        clock.heard(api.parse_time(said), (began + ended) // 2)


def _seconds(micros: Micros) -> float:
    return round(micros / 1e6, 3)
