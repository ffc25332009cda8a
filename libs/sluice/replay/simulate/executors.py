"""Behaviour of jobs that ran, learnt from a log: what executors reported, and how long after what.

In another run they report at other times, so reports are kept per attempt and relative to its start, or to
the moment when it was told to stop.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sluice.events.base import JobKey, Micros
from sluice.events.codec import decode_message, encode_message
from sluice.log.contract import Entry
from sluice.replay.source.partial_decode import Told

KINDS = ("JobPodsReady", "JobStopped", "JobFinished", "JobPodsReclaimable")
"""Messages of executors."""
DEFAULT_STOP_US = 1_000_000
ENDS = ("JobStopped", "JobFinished")

_UID = re.compile(rb',"uid":"[^"\\]*"|"uid":"[^"\\]*",?')


@dataclass(slots=True)
class Report:
    """One message of an executor, so long after the attempt began (or was told to stop)."""

    kind: str
    after_us: int
    payload: bytes
    seq: int
    at: Micros = 0
    """When it came in the log."""


@dataclass(slots=True)
class Attempt:
    """What was reported of one attempt while it ran, and after it had been told to stop."""

    running: list[Report] = field(default_factory=list)
    stopping: list[Report] = field(default_factory=list)
    least_us: int = 0
    """It ran for so long before it was told to stop."""

    @property
    def ended(self) -> bool:
        """Did it end of its own accord?"""
        return bool(self.running) and self.running[-1].kind in ENDS


@dataclass(slots=True)
class Run:
    """How one incarnation of a job behaves when it runs; None: the log does not say."""

    seconds_us: int | None = None
    ready_us: int | None = None
    stop_us: int | None = None
    success: bool = True
    least_us: int = 0
    """It ran for so long without finishing."""
    finish_seq: int = 0
    """Orders jobs that end at the same moment, as the log has them."""
    attempts: dict[int, Attempt] = field(default_factory=dict)

    def reports(self, job: JobKey, attempt: int, seconds_us: int) -> list[Report]:
        """Return what an executor says of an attempt that nobody stops; *seconds_us*: its run time."""
        known = self.attempts.get(attempt)
        if known is not None and known.ended:
            return known.running
        if known is not None and known.least_us >= seconds_us:
            # It had run for longer than it did when it finished; nobody knows how much was left.
            seconds_us += known.least_us
        found = [r for r in known.running if r.after_us < seconds_us] if known is not None else []
        if known is None and self.ready_us is not None and self.ready_us < seconds_us:
            found.append(Report("JobPodsReady", self.ready_us, made("JobPodsReady", job, attempt), 0))
        payload = made("JobFinished", job, attempt, success=self.success)
        return [*found, Report("JobFinished", seconds_us, payload, self.finish_seq)]

    def answers(self, job: JobKey, attempt: int, *, over: bool = False) -> list[Report]:
        """Return what an executor says when it is told to stop the attempt; *over*: it had ended by then."""
        known = self.attempts.get(attempt)
        if over or (known is not None and known.stopping):
            return known.stopping if known is not None else []
        wait = DEFAULT_STOP_US if self.stop_us is None else self.stop_us
        return [Report("JobStopped", wait, made("JobStopped", job, attempt), 0)]


def made(kind: str, job: JobKey, attempt: int, *, success: bool = True) -> bytes:
    """Return an executor's message that the log does not have."""
    data: dict[str, object] = {"attempt": attempt}
    if kind == "JobFinished" and not success:
        data["success"] = False
    return encode_message(
        message_id=f"{kind}-{job}-{attempt}", source="what-if", event_type=kind, subject=job, at=0, data=data
    )


_Spoken = tuple[Told, Micros, Micros]
"""What an executor was told: when that was decided, and when it was published."""

_Heard = tuple[Entry, str]
"""What an executor reported, and of which kind."""


@dataclass(slots=True)
class _Present:
    run: Run
    attempt: int
    at: Micros
    """When it began, or was told to stop."""
    stops: bool = False
    over: bool = False


class Runs(Mapping[JobKey, list[Run]]):
    """How each incarnation of each job behaved; worked out when somebody asks, as most runs ask for few."""

    def __init__(self) -> None:
        self.end: Micros = 0
        """Of the log: what runs then had run by then."""
        self._said: dict[JobKey, list[_Spoken | _Heard]] = {}
        """What was decided on the job, and what executors reported, in order."""
        self._known: dict[JobKey, list[Run]] = {}

    def decided(self, told: Told, at: Micros, published: Micros) -> None:
        """Hear that a job is to run, or to stop; its executor could not know before it was *published*."""
        said = self._said.get(JobKey(told.job))
        if said is not None:
            said.append((told, at, published))
        elif told.type == "JobResumed":
            self._said[JobKey(told.job)] = [(told, at, published)]

    def heard(self, entry: Entry, job: JobKey, kind: str) -> None:
        """Hear of an executor's message about *job*."""
        said = self._said.get(job)
        if said is not None:
            said.append((entry, kind))

    def __getitem__(self, job: JobKey) -> list[Run]:
        found = self._known.get(job)
        if found is None:
            found = self._known[job] = _runs_of(self._said[job], self.end)
        return found

    def __iter__(self) -> Iterator[JobKey]:
        return iter(self._said)

    def __len__(self) -> int:
        return len(self._said)


def _runs_of(said: Iterable[_Spoken | _Heard], end: Micros) -> list[Run]:
    runs: list[Run] = []
    present: _Present | None = None
    for each in said:
        if len(each) == 2:
            if present is not None and not present.over:
                _learn(present, *each)
            continue
        event, at, published = each
        if event.type == "JobResumed":
            if present is None or event.attempt <= present.attempt:
                # Attempts count from 1: it has been submitted anew.
                runs.append(Run())
            runs[-1].attempts[event.attempt] = Attempt()
            present = _Present(runs[-1], event.attempt, at)
        elif present is not None:
            # It would have run for longer than it did.
            ran = max(at, published) - present.at
            present.run.attempts[present.attempt].least_us = ran
            present.run.least_us = max(present.run.least_us, ran)
            present.at, present.stops = at, True
    if present is not None and present.run.seconds_us is None and not present.stops and not present.over:
        present.run.least_us = max(present.run.least_us, end - present.at)
    return runs


def _learn(present: _Present, entry: Entry, kind: str) -> None:
    run, after, payload = present.run, max(0, entry.at - present.at), entry.payload
    if b'"uid"' in payload:
        # In another run the job has another uid, and a report with a wrong one is stale.
        payload = _UID.sub(b"", payload)
    attempt = run.attempts[present.attempt]
    reports = attempt.stopping if present.stops else attempt.running
    reports.append(Report(kind, after, payload, entry.seq, entry.at))
    present.over = kind in ENDS
    if kind == "JobFinished" and not present.stops:
        run.seconds_us, run.finish_seq = after, entry.seq
        run.success = not _failed(payload)
    elif kind == "JobPodsReady" and not present.stops and run.ready_us is None:
        run.ready_us = after
    elif kind == "JobStopped" and present.stops:
        run.stop_us = after


def _failed(payload: bytes) -> bool:
    if b'"success"' not in payload:
        return False
    message = decode_message(payload)
    return not isinstance(message, tuple) and b'"success":false' in bytes(message.data).replace(b" ", b"")


__all__ = ["KINDS"]
