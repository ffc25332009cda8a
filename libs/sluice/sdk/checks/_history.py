"""History in the log of requests that a predecessor may have answered.

The bucket tells what is asked, but not what was answered and has not been looked at yet by the
admission-check service, nor how many verdicts an attempt has had. The log does: the controller's own
subject, from the oldest reservation on.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluice.events.checks import CheckInputRejected, VerdictIgnored
from sluice.events.codec import decode_commit
from sluice.events.commit import Commit
from sluice.log.contract import Entry
from sluice.protocol.checks import CheckRequest

from ._verdict_messages import Said, decode, number_of

SKEW_US = 60_000_000
"""How far the clocks of machines may be apart."""

LOOK_S = 0.5
"""Many verdicts may be waited for at once: the log is looked at once in so long."""
FORGET_S = 90.0
"""When nobody has asked for so long, what was written since is of no concern."""


@dataclass(slots=True)
class Past:
    """What was said of one attempt. `number`: the highest of its verdicts."""

    number: int = 0
    said: Said | None = None


def said_against(commit: Commit) -> Iterator[tuple[int, str]]:
    """Yield the sequences of verdicts that the service did not take, each with why."""
    for step in commit.steps:
        for event in step.events:
            if isinstance(event, CheckInputRejected):
                yield event.cause, "; ".join(str(error) for error in event.errors)
            elif isinstance(event, VerdictIgnored) and event.reason != "Duplicate":
                yield event.cause, f"{event.reason}: {event.message}"


class Answers:
    """What the service has said against verdicts: read once for all that wait, and not too often.

    *read*: the service's commits from a sequence on; *end*: where the log ends; *now*: seconds.
    """

    def __init__(
        self,
        read: Callable[[int], AsyncIterator[Sequence[Entry]]],
        end: Callable[[], Awaitable[int]],
        now: Callable[[], float],
    ) -> None:
        self._read, self._end, self._now = read, end, now
        self._one = asyncio.Lock()
        self._looked_at = -math.inf
        self._since = self._to = 0
        """What was read of the log: behind the one, up to the other."""
        self._upto = 0
        """How far the service had read by then."""
        self._against: dict[int, str] = {}

    async def to(self, seq: int) -> bool | str:
        """Return what was said against the verdict at *seq*; True: nothing, though it was read."""
        async with self._one:
            now = self._now()
            if now - self._looked_at > FORGET_S:
                self._since = self._to = seq
                self._upto, self._against = 0, {}
            elif seq < self._since:
                self._since = self._to = seq
                self._upto = 0
            if now - self._looked_at >= LOOK_S:
                await self._look()
                self._looked_at = now
            return self._against.get(seq) or self._upto >= seq

    async def _look(self) -> None:
        end = await self._end()
        async for entries in self._read(self._to + 1):
            for entry in entries:
                commit = decode_commit(entry.payload, entry.suffix, entry.seq)
                self._against.update(said_against(commit))
                self._to = entry.seq
                if commit.steps:
                    self._upto = commit.steps[-1].upto
        self._to = max(self._to, end)


class History:
    """The verdicts of requests that are open."""

    def __init__(self, requests: Mapping[str, CheckRequest]) -> None:
        self._keys: dict[tuple[str, str, int], tuple[str, str]] = {}
        self._found: dict[str, Past] = {}
        self.since = min((request.reserved_at for request in requests.values()), default=0) - SKEW_US
        """Verdicts that the log took before this time are of no open request."""
        for key, request in requests.items():
            workload = request.workload
            name = f"{workload.namespace}/{workload.name}"
            self._keys[(name, request.check, request.attempt)] = (key, workload.uid)

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            message = decode(entry.payload)
            if message is None:
                continue
            ident, verdict, recheck_after_s = message
            found = self._keys.get((verdict.workload, verdict.check, verdict.attempt))
            if found is None or verdict.uid not in ("", found[1]):
                continue
            past = self._found.setdefault(found[0], Past())
            past.number = max(past.number, number_of(ident))
            past.said = Said(verdict, entry.at, entry.seq, recheck_after_s)

    def of(self, key: str) -> Past:
        return self._found.get(key) or Past()
