"""What the log says about requests that a predecessor may have answered.

The bucket tells what is asked, but not what was answered and has not been looked at yet by the
admission-check service, nor how many verdicts an attempt has had. The log does: the controller's own
subject, from the oldest reservation on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluice.events.checks import CheckInputRejected, VerdictIgnored
from sluice.events.commit import Commit
from sluice.log.contract import Entry
from sluice.protocol.checks import CheckRequest

from .verdict_messages import Said, decode, number_of

SKEW_US = 60_000_000
"""How far the clocks of machines may be apart."""


@dataclass(slots=True)
class Past:
    """What was said of one attempt. `number`: the highest of its verdicts."""

    number: int = 0
    said: Said | None = None


def against(seq: int, commit: Commit) -> str | None:
    """Return what a commit of the service says against the verdict at *seq*; None: it is not about that."""
    for step in commit.steps:
        for event in step.events:
            if event.cause != seq:
                continue
            if isinstance(event, CheckInputRejected):
                return "; ".join(str(error) for error in event.errors)
            if isinstance(event, VerdictIgnored):
                return "" if event.reason == "Duplicate" else f"{event.reason}: {event.message}"
    return None


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
