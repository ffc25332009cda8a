"""What came from outside, taken out of a log: submissions, configuration, and how long jobs ran."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

import msgspec

from sluice.core.slices_intake import job_of
from sluice.events.base import Event, JobKey, Micros
from sluice.events.codec import decode_commit, decode_message, encode_message
from sluice.events.config import ObjectApplied
from sluice.events.slices import JobResumed, JobSuspended
from sluice.log.contract import Entry
from sluice.log.subjects import COMMITS

from .source import Source
from .states import Progress

EXECUTOR = ("JobPodsReady", "JobStopped", "JobFinished", "JobPodsReclaimable")
"""Messages of executors: in another run they come at other times, so they are made anew."""
DEFAULT_STOP_US = 1_000_000


@dataclass(slots=True)
class Input:
    """A message from outside, or a change of configuration."""

    at: Micros
    suffix: str
    payload: bytes = b""
    events: tuple[Event, ...] = ()
    """Of the configuration."""
    seq: int = 0


@dataclass(slots=True)
class Run:
    """How a job behaves when it runs; None: the log does not say."""

    seconds_us: int | None = None
    ready_us: int | None = None
    stop_us: int | None = None
    success: bool = True
    least_us: int = 0
    """It ran for so long at the log's end, and had not finished."""
    finish_seq: int = 0
    """Orders jobs that end at the same moment, as the log has them."""


@dataclass
class Inputs:
    """Everything that a run needs, in order of time."""

    items: list[Input] = field(default_factory=list)
    runs: dict[JobKey, Run] = field(default_factory=dict)
    end: Micros = 0
    times: list[Micros] = field(default_factory=list)
    """When the slice-aggregator decided, in order: what came between two of them was decided on together."""

    def run_of(self, job: JobKey) -> tuple[Run, bool]:
        """Return how the job behaves, and whether its run time is assumed: the median of the others."""
        run = self.runs.get(job) or Run()
        if run.seconds_us is not None:
            return run, False
        if self._median is None:
            known = [r.seconds_us for r in self.runs.values() if r.seconds_us is not None]
            self._median = int(median(known)) if known else 60_000_000
        return Run(max(self._median, run.least_us + 1), run.ready_us, run.stop_us), True

    _median: int | None = None


def inputs_of(source: Source, until: int | None = None, progress: Progress | None = None) -> Inputs:
    """Take the inputs out of a log."""
    found = Inputs()
    started: dict[JobKey, Micros] = {}
    stopping: dict[JobKey, Micros] = {}
    for entries in source.read(1, until):
        for entry in entries:
            found.end = max(found.end, entry.at)
            if entry.suffix == "slices":
                for step in decode_commit(entry.payload).steps:
                    if step.at > (found.times[-1] if found.times else 0):
                        found.times.append(step.at)
                    for event in step.events:
                        if isinstance(event, JobResumed):
                            started[event.job] = step.at
                        elif isinstance(event, JobSuspended):
                            stopping[event.job] = step.at
            elif entry.suffix == "config":
                for step in decode_commit(entry.payload).steps:
                    found.items.append(Input(step.at, "config", b"", step.events, entry.seq))
            elif entry.suffix not in COMMITS and not _report(entry, found, started, stopping):
                found.items.append(Input(entry.at, entry.suffix, entry.payload, (), entry.seq))
        if progress is not None and entries:
            progress(entries[-1].seq)
    for job, at in started.items():
        run = found.runs.setdefault(job, Run())
        if run.seconds_us is None and stopping.get(job, 0) < at:
            run.least_us = found.end - at
    return found


def _report(
    entry: Entry, found: Inputs, started: dict[JobKey, Micros], stopping: dict[JobKey, Micros]
) -> bool:
    """Learn from an executor's message; False if it is none."""
    if not entry.suffix.startswith("job."):
        return False
    message = decode_message(entry.payload)
    if isinstance(message, tuple) or message.type not in EXECUTOR:
        return False
    job = job_of(entry.suffix)
    if job is None:
        return True
    run = found.runs.setdefault(job, Run())
    if message.type == "JobFinished" and job in started:
        run.seconds_us, run.finish_seq = max(0, entry.at - started[job]), entry.seq
        run.success = b'"success":false' not in bytes(message.data).replace(b" ", b"")
    elif message.type == "JobPodsReady" and job in started and run.ready_us is None:
        run.ready_us = max(0, entry.at - started[job])
    elif message.type == "JobStopped" and job in stopping:
        run.stop_us = max(0, entry.at - stopping[job])
    return True


def report_message(kind: str, job: JobKey, attempt: int, at: Micros, *, success: bool = True) -> bytes:
    """Return an executor's message of a virtual run."""
    data: dict[str, object] = {"attempt": attempt}
    if kind == "JobFinished" and not success:
        data["success"] = False
    return encode_message(
        message_id=f"{kind}-{job}-{attempt}", source="what-if", event_type=kind, subject=job, at=at, data=data
    )


def job_names(items: Iterable[Input]) -> list[str]:
    return sorted({job for item in items if (job := job_of(item.suffix)) is not None})


def applied(kind: str, name: str, manifest: object, namespace: str = "") -> ObjectApplied:
    return ObjectApplied(
        cause=0, kind=kind, name=name, namespace=namespace, object=msgspec.Raw(msgspec.json.encode(manifest))
    )


__all__ = [
    "DEFAULT_STOP_US", "Input", "Inputs", "Run", "applied", "inputs_of", "job_names",
    "report_message",
]  # fmt: skip
