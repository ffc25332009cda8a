"""Causes of events, one after the other: the history of one object, and who preempted it (DB1)."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.events import slices
from sluice.events.base import Event, Micros
from sluice.events.codec import CommitDecodeError, decode_message
from sluice.events.scheduler import Preempted
from sluice.events.slices import WorkloadCreated, WorkloadRecord
from sluice.events.variants import VariantCreated
from sluice.log.contract import Entry
from sluice.log.fold import steps_of
from sluice.protocol.subjects import COMMITS, job_of
from sluice.protocol.tracing import said_in
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, tracked

__all__ = ["Happening", "happenings", "history", "history_of_queues", "of_message", "preemptions_of"]


@dataclass(frozen=True)
class Happening:
    """One event, or one message from outside, at its place."""

    seq: int
    writer: str
    at: Micros
    cause: int
    type: str
    data: dict[str, Any]

    def about(self) -> frozenset[str]:
        """Return the keys of workloads and jobs, and the names of queues, that it speaks of."""
        found = [
            str(self.data[name])
            for name in ("workload", "job", "preemptor", "parent", "by", "clusterQueue", "localQueue")
            if isinstance(self.data.get(name), str)
        ]
        found += [key for name in ("workloads", "victims") for key in self.data.get(name, ())]
        record = self.data.get("workload")
        if isinstance(record, dict):
            found.append(f"{record['namespace']}/{record['name']}")
            if record.get("job"):
                found.append(record["job"]["key"])
            if record.get("parent"):
                found.append(record["parent"])
        return frozenset(found)


def happenings(entries: Iterable[Entry]) -> Iterator[Happening]:
    """Yield what entries hold, in order; what cannot be read as one happening of type `Unreadable`."""
    for entry in entries:
        if entry.suffix in COMMITS:
            try:
                steps = steps_of(entry)
            except CommitDecodeError as error:
                yield Happening(entry.seq, entry.suffix, entry.at, 0, "Unreadable", {"detail": str(error)})
                continue
            for step in steps:
                for event in step.events:
                    yield of_event(entry.seq, entry.suffix, step.at, event)
        else:
            yield of_message(entry)


def of_event(seq: int, writer: str, at: Micros, event: Event) -> Happening:
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    return Happening(seq, writer, at, event.cause, type(event).__name__, data)


def of_message(entry: Entry) -> Happening:
    message = decode_message(entry.payload)
    root = entry.suffix.partition(".")[0]
    if isinstance(message, tuple):
        return Happening(entry.seq, root, entry.at, 0, "Unreadable", {"detail": "; ".join(map(str, message))})
    data: dict[str, Any] = {"subject": entry.suffix}
    if (job := job_of(entry.suffix)) is not None:
        data |= {"job": job, **said_in(entry.payload)}
    elif root == "verdict":
        with contextlib.suppress(*UNREADABLE):
            said = msgspec.json.decode(message.data)
            data |= {k: said[k] for k in ("workload", "check", "state", "attempt") if k in said}
    return Happening(entry.seq, root, entry.at, 0, message.type, data)


def preemptions_of(source: Source, key: str, progress: Progress | None = None) -> list[Happening]:
    """Return the Preempted events of a workload, or of any workload of a job, in order."""
    keys = {key}
    found = []
    for entries in tracked(source.read(1, None, ("slices", "variants", "scheduler")), progress):
        for entry in entries:
            if key.encode() not in entry.payload and not any(k.encode() in entry.payload for k in keys):
                continue
            for step in steps_of(entry):
                for event in step.events:
                    if isinstance(event, WorkloadCreated | VariantCreated):
                        job, parent = event.workload.job, event.workload.parent
                        if (job is not None and job.key == key) or parent in keys:
                            keys.add(event.workload.key)
                    elif isinstance(event, Preempted) and event.workload in keys:
                        found.append(of_event(entry.seq, entry.suffix, step.at, event))
    return found


def history(source: Source, keys: Iterable[str], progress: Progress | None = None) -> list[Happening]:
    """Return all that happened to jobs, workloads or queues; a job's workloads are found on the way.

    Messages about the jobs are there, and what they were answered where nothing followed.
    """
    wanted = set(keys)
    asked: set[int] = set()
    found = []
    for entries in tracked(source.read(), progress):
        marks = [key.encode() for key in wanted]
        for entry in entries:
            if entry.suffix in COMMITS:
                answers = (
                    asked and entry.suffix == slices.WRITER and any(w in entry.payload for w in _NOTHING_CAME)
                )
                if not answers and not any(mark in entry.payload for mark in marks):
                    continue
            elif entry.suffix.startswith("job."):
                if job_of(entry.suffix) not in wanted:
                    continue
                asked.add(entry.seq)
            for happening in _marked(entry, (*marks, *_NOTHING_CAME)):
                about = happening.about()
                if about & wanted or not asked.isdisjoint(_turned_down(happening)):
                    found.append(happening)
                    if happening.type in ("WorkloadCreated", "VariantCreated"):
                        wanted |= {key for key in about if "/" in key}
                        marks = [key.encode() for key in wanted]
    return found


_NOTHING_CAME = (b"InputsIgnored", b"Rejected")
"""Events that answer messages and name no job."""


def _turned_down(happening: Happening) -> Sequence[int]:
    """Return the messages that were refused, or changed nothing, as the event says."""
    if happening.type == "InputsIgnored":
        seqs: Sequence[int] = happening.data["seqs"]
        return seqs
    return (happening.cause,) if happening.type == "Rejected" else ()


def _marked(entry: Entry, marks: Sequence[bytes]) -> Iterator[Happening]:
    """Yield the happenings of an entry that hold one of *marks*."""
    if entry.suffix not in COMMITS:
        yield of_message(entry)
        return
    with contextlib.suppress(CommitDecodeError):
        for step in steps_of(entry):
            for event in step.events:
                data = msgspec.json.encode(event)
                if any(mark in data for mark in marks):
                    yield of_event(entry.seq, entry.suffix, step.at, event)


def history_of_queues(
    source: Source, locals_: Iterable[str], queues: Iterable[str], progress: Progress | None = None
) -> list[Happening]:
    """Return all that happened to cluster queues and to whoever queued in them.

    *locals_*: the local queues (`namespace/name`) that lead there.
    """
    names, wanted = frozenset(locals_), set(queues)
    found = []
    for entries in tracked(source.read(), progress):
        for entry in entries:
            if entry.suffix not in COMMITS:
                if job_of(entry.suffix) in wanted:
                    found.append(of_message(entry))
                continue
            with contextlib.suppress(CommitDecodeError):
                for step in steps_of(entry):
                    about = (event for event in step.events if _of_queues(event, names, wanted))
                    found += [of_event(entry.seq, entry.suffix, step.at, event) for event in about]
    return found


def _of_queues(event: Event, names: frozenset[str], wanted: set[str]) -> bool:
    """Tell whether the event is about one of *wanted*, which grows by what comes to the queues."""
    record = getattr(event, "workload", None)
    if isinstance(record, WorkloadRecord):
        if f"{record.namespace}/{record.queue_name}" not in names:
            return False
        wanted.add(record.key)
        if record.job is not None:
            wanted.add(record.job.key)
        return True
    about = (record, getattr(event, "job", None), getattr(event, "cluster_queue", None))
    if any(one in wanted for one in about if isinstance(one, str)):
        return True
    return any(key in wanted for key in getattr(event, "workloads", ()))
