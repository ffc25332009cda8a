"""How jobs behaved when they ran, learnt from a log: what executors reported, and how long after what.

In another run they report at other times, so reports are kept per attempt and relative to its start, or to
the moment when it was told to stop.
"""

import re
from dataclasses import dataclass, field

from sluice.core.slices_intake import job_of
from sluice.events.base import Event, JobKey, Micros
from sluice.events.codec import CloudEvent, decode_message, encode_message
from sluice.events.slices import JobResumed, JobSuspended
from sluice.log.contract import Entry

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

    def answers(self, job: JobKey, attempt: int) -> list[Report]:
        """Return what an executor says after it was told to stop the attempt."""
        known = self.attempts.get(attempt)
        if known is not None and known.stopping:
            return known.stopping
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


@dataclass(slots=True)
class _Present:
    run: Run
    attempt: int
    at: Micros
    """When it began, or was told to stop."""
    stops: bool = False
    over: bool = False


@dataclass
class Learner:
    """Takes a log in order; `runs` has what it says of each incarnation of each job."""

    runs: dict[JobKey, list[Run]] = field(default_factory=dict)
    _present: dict[JobKey, _Present] = field(default_factory=dict)

    def decided(self, event: Event, at: Micros) -> None:
        """Hear of an event of the slice-aggregator."""
        if isinstance(event, JobResumed):
            runs = self.runs.setdefault(event.job, [])
            last = self._present.get(event.job)
            if last is None or event.attempt <= last.attempt:
                # Attempts count from 1: it has been submitted anew.
                runs.append(Run())
            runs[-1].attempts[event.attempt] = Attempt()
            self._present[event.job] = _Present(runs[-1], event.attempt, at)
        elif isinstance(event, JobSuspended):
            present = self._present.get(event.job)
            if present is not None:
                # It would have run for longer than it did.
                ran = at - present.at
                present.run.attempts[present.attempt].least_us = ran
                present.run.least_us = max(present.run.least_us, ran)
                present.at, present.stops = at, True

    def heard(self, entry: Entry) -> bool:
        """Learn from an executor's message; False if it is none."""
        if not entry.suffix.startswith("job."):
            return False
        message = decode_message(entry.payload)
        if isinstance(message, tuple) or message.type not in KINDS:
            return False
        job = job_of(entry.suffix)
        present = None if job is None else self._present.get(job)
        if present is not None and not present.over:
            _learn(present, message, entry)
        return True

    def finish(self, end: Micros) -> None:
        """Note how long what still runs has run by now."""
        for present in self._present.values():
            if present.run.seconds_us is None and not present.stops and not present.over:
                present.run.least_us = max(present.run.least_us, end - present.at)


def _learn(present: _Present, message: CloudEvent, entry: Entry) -> None:
    run, after = present.run, max(0, entry.at - present.at)
    # In another run the job has another uid, and a report with a wrong one is stale.
    payload = _UID.sub(b"", entry.payload)
    report = Report(message.type, after, payload, entry.seq)
    attempt = run.attempts[present.attempt]
    (attempt.stopping if present.stops else attempt.running).append(report)
    present.over = message.type in ENDS
    if message.type == "JobFinished" and not present.stops:
        run.seconds_us, run.finish_seq = after, entry.seq
        run.success = b'"success":false' not in bytes(message.data).replace(b" ", b"")
    elif message.type == "JobPodsReady" and not present.stops and run.ready_us is None:
        run.ready_us = after
    elif message.type == "JobStopped" and present.stops:
        run.stop_us = after


__all__ = ["DEFAULT_STOP_US", "ENDS", "KINDS", "Attempt", "Learner", "Report", "Run", "made"]
