"""Inputs of a log, taken out of it: submissions, configuration, and how long jobs ran."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.api.labels import QUEUE_NAME
from sluice.events.base import Event, JobKey, Micros
from sluice.events.codec import decode_commit, decode_message
from sluice.events.config import ObjectApplied
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS, job_of
from sluice.replay.source.partial_decode import process_of, read_times, read_told_steps
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, check_whole, tracked

from .controllers import Verdicts
from .executors import KINDS, Run, Runs
from .recorded_timing import Clock, Tempo


@dataclass(slots=True)
class Input:
    """A message from outside, or a change of configuration."""

    at: Micros
    suffix: str
    payload: bytes = b""
    events: tuple[Event, ...] = ()
    """Of the configuration."""
    seq: int = 0


@dataclass
class Inputs:
    """Everything that a run needs, in order of time."""

    items: list[Input] = field(default_factory=list)
    runs: Mapping[JobKey, list[Run]] = field(default_factory=dict)
    """Per job one of each incarnation: a job may be submitted again when it has finished."""
    verdicts: Verdicts = field(default_factory=Verdicts)
    """How admission checks were answered."""
    end: Micros = 0
    tempos: dict[str, Tempo] = field(default_factory=dict)
    """Service -> when it decided, and on what."""
    queues: dict[JobKey, dict[str, None]] = field(default_factory=dict)
    """Jobs, and the `namespace/name` of every local queue they were ever sent to; no name: unknown."""

    left_out: int = 0
    """Of a foreign trace: entries of what never ran."""

    def only(self, items: Iterable[Input]) -> "Inputs":
        """Return these inputs with other items, in order of time."""
        return replace(self, items=list(items))

    def run_of(self, job: JobKey, incarnation: int = 0) -> Run:
        """Return how the job behaves; what the log does not say of it is that of its last incarnation."""
        runs = self.runs.get(job)
        return _UNKNOWN if not runs else runs[min(incarnation, len(runs) - 1)]

    def seconds_of(self, run: Run) -> tuple[Micros, bool]:
        """Return how long it runs, in microseconds, and whether that is assumed: the median of the others."""
        if run.seconds_us is not None:
            return run.seconds_us, False
        if self._median is None:
            from statistics import median

            known = [r.seconds_us for runs in self.runs.values() for r in runs if r.seconds_us is not None]
            self._median = int(median(known)) if known else 60_000_000
        return max(self._median, run.least_us + 1), True

    _median: int | None = None


_UNKNOWN = Run()


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    queue_name: str | None = None


class _Manifest(msgspec.Struct):
    metadata: _Metadata | None = None
    spec: _Spec | None = None


class _Outline(msgspec.Struct):
    """What is asked of a message about a job, in one go: most are as they should be."""

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    data: _Manifest
    # Only asked to be what `CloudEvent` wants.
    subject: str = ""
    time: str = ""
    datacontenttype: str = ""


_MANIFESTS = msgspec.json.Decoder(_Manifest)
_OUTLINES = msgspec.json.Decoder(_Outline)


KEPT_BYTES = 128 << 20
"""So much of a log is rather kept than read again."""


@dataclass
class Kept:
    """The commits of a log that was read, if they are not too large together."""

    entries: list[Entry] = field(default_factory=list)
    complete: bool = True
    room: int = KEPT_BYTES

    def put(self, entry: Entry) -> None:
        self.room -= len(entry.payload)
        if self.room >= 0:
            self.entries.append(entry)
        elif self.complete:
            self.complete = False
            self.entries.clear()

    def read(self, source: Source, writers: Collection[str]) -> Iterator[Sequence[Entry]]:
        """Yield the commits of *writers*; *source* is what they were read from."""
        if not self.complete:
            yield from source.read(1, None, writers)
            return
        entries = [entry for entry in self.entries if entry.suffix in writers]
        for begin in range(0, len(entries), 256):
            yield entries[begin : begin + 256]


def inputs_of(
    source: Source, until: int | None = None, progress: Progress | None = None, kept: Kept | None = None
) -> Inputs:
    """Take the inputs out of a log; what services have written in it goes to *kept*."""
    check_whole(source)
    found, runs, clock = Inputs(), Runs(), Clock()
    found.runs = runs
    verdicts = found.verdicts
    tempos = found.tempos = {writer: Tempo() for writer in ("slices", "variants", "scheduler", "checks")}
    for entries in tracked(source.read(1, until), progress):
        clock.note(entries)
        for entry in entries:
            seq, suffix, at, payload, _ = entry
            if suffix.startswith("job."):
                if not _is_report(found, runs, entry):
                    found.items.append(Input(at, suffix, payload, (), seq))
                continue
            if kept is not None and suffix in COMMITS:
                kept.put(entry)
            if suffix in tempos:
                tempos[suffix].written_by(process_of(payload))
            if suffix == "slices":
                for turn in read_told_steps(payload, seq):
                    tempos[suffix].note(turn.at, turn.upto, (at, seq))
                    for told in turn.events:
                        if told.type == "JobResumed" or told.type == "JobSuspended":
                            runs.decided(told, turn.at, at)
                        elif told.type == "WorkloadCreated":
                            verdicts.names.made(told.workload)
            elif suffix == "scheduler":
                for bare in read_times(payload, suffix, seq):
                    tempos[suffix].note(bare.at, bare.upto, (at, seq))
            elif suffix in ("checks", "variants"):
                for step in decode_commit(payload, suffix, seq).steps:
                    tempos[suffix].note(step.at, step.upto, (at, seq))
                    for event in step.events:
                        verdicts.learn(event, step.at)
            elif suffix == "config":
                for step in decode_commit(payload, suffix, seq).steps:
                    found.items.append(Input(step.at, "config", b"", step.events, seq))
            elif suffix not in COMMITS and not verdicts.heard(entry):
                found.items.append(Input(at, suffix, payload, (), seq))
    found.end = runs.end = clock.end
    clock.set_limits(tempos.values())
    return found


def _is_report(found: Inputs, runs: Runs, entry: Entry) -> bool:
    """Learn from a message about a job; False if it is one of the inputs: no executor's."""
    kind, manifest = _outline(entry.payload)
    job = job_of(entry.suffix)
    if kind in KINDS:
        if job is not None:
            runs.heard(entry, job, kind)
        return True
    if job is not None and kind:
        queues = found.queues.setdefault(job, {})
        if kind == "JobSubmitted":
            namespace = job.partition("/")[0]
            queues.update((f"{namespace}/{name}", None) for name in _queues_in(manifest))
    return False


def _outline(payload: bytes) -> tuple[str, _Manifest | None]:
    """Return a message's type, "" if it is none, and its manifest, None if it has none that can be read."""
    try:
        outline = _OUTLINES.decode(payload)
        if outline.id and outline.source:
            return outline.type, outline.data
    except UNREADABLE:
        pass
    message = decode_message(payload)
    if isinstance(message, tuple):
        return "", None
    try:
        return message.type, _MANIFESTS.decode(message.data)
    except UNREADABLE:
        return message.type, None


def _queues_in(manifest: _Manifest | None) -> Iterable[str]:
    """Return the names of queues in a manifest that may be of any kind; "" if nobody knows."""
    if manifest is None:
        return ("",)
    labels = (manifest.metadata or _Metadata()).labels or {}
    return filter(None, (labels.get(QUEUE_NAME), (manifest.spec or _Spec()).queue_name))


def job_names(items: Iterable[Input]) -> list[str]:
    return sorted({job for item in items if (job := job_of(item.suffix)) is not None})


def applied(kind: str, name: str, manifest: object, namespace: str = "") -> ObjectApplied:
    return ObjectApplied(
        cause=0, kind=kind, name=name, namespace=namespace, object=msgspec.Raw(msgspec.json.encode(manifest))
    )
