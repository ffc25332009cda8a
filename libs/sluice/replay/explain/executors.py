"""Executors that are there, the attempts that they claimed, and jobs that were told to stop for good.

The scheduler knows nothing of it. It is read when an answer needs it, from the newest snapshot of the
slice-aggregator on: once who is there and who is to stop, then of each job that is asked about its commits.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.state import Phase, Stop
from sluice.core.slices.state import State as SliceState
from sluice.core.workload.reasons import JOB_DELETED, NO_MATCHING_WORKLOAD
from sluice.core.world.workload import Workload
from sluice.events import slices
from sluice.events.base import Event, JobKey, Micros, WorkloadKey
from sluice.events.codec import CloudEvent, CommitDecodeError, decode_commit, decode_message
from sluice.events.ids import seq_of
from sluice.log.contract import Entry
from sluice.protocol.executor_kinds import kinds_of, none_runs
from sluice.protocol.subjects import presence_suffix, untoken
from sluice.replay.source.source import Source

_FOR_GOOD = {
    JOB_DELETED: "its job was deleted",
    NO_MATCHING_WORKLOAD: "its job has changed, and gets another workload",
}
"""Why a job is told to stop though nobody has evicted it -> as words for people."""


@dataclass(frozen=True)
class Claim:
    """Who has taken the attempt that runs; '' for an executor that tells no name."""

    executor: str
    since: Micros | None = None
    """When it was said; None: before the snapshot that was read."""


class Executors:
    """What *source* says of them as of *seq*."""

    def __init__(self, source: Source, seq: int) -> None:
        self._source, self._seq = source, seq
        self._present: dict[str, bool] = {}
        self._claims: dict[JobKey, Claim | None] = {}

    @cached_property
    def _stored(self) -> tuple[SliceState | None, int]:
        """The newest snapshot of the slice-aggregator, and the first message that is not in it."""
        found = self._source.snapshot(SliceAggregator(), self._seq) or self._source.base(SliceAggregator())
        return (None, 1) if found is None else (found.state, min(found.upto, found.own or found.upto) + 1)

    @cached_property
    def told(self) -> Mapping[WorkloadKey, str]:
        """Workload, of a job with variants the parent -> why it is told to stop for good; it has not yet."""
        state, first = self._stored
        found: dict[WorkloadKey, str] = {}
        if state is not None:
            reasons = {Stop.DELETED: JOB_DELETED, Stop.REPLACED: NO_MATCHING_WORKLOAD}
            for job in state.jobs.values():
                if job.phase is Phase.STOPPING and job.stop in reasons:
                    found[job.dispatched or job.record.key] = _FOR_GOOD[reasons[job.stop]]
            self._present.update(state.executors)
        marks = {reason.encode() for reason in _FOR_GOOD} | {key.encode() for key in found}
        for entries in self._source.read(first, self._seq, (slices.WRITER, "presence.agent.*")):
            for entry in entries:
                if entry.suffix != slices.WRITER:
                    self._appear(entry)
                    continue
                for event, _ in _events(entry, marks):
                    match event:
                        case slices.JobSuspended(workload=key, reason=reason) if reason in _FOR_GOOD:
                            found[key] = _FOR_GOOD[reason]
                            marks.add(key.encode())
                        case slices.WorkloadStopped() | slices.WorkloadDeleted() | slices.WorkloadFinished():
                            found.pop(event.workload, None)
        return found

    def _appear(self, entry: Entry) -> None:
        name = untoken(entry.suffix.rpartition(".")[2])
        message = decode_message(entry.payload)
        if isinstance(message, CloudEvent) and (message.type == "Seen" or name in self._present):
            self._present[name] = message.type == "Seen"

    def _there(self) -> dict[str, bool]:
        _ = self.told  # read together
        return self._present

    def there(self, name: str) -> bool:
        """Tell whether the log has the executor as there."""
        return self._there().get(name, False)

    def anybody(self) -> bool:
        return any(self._there().values())

    @cached_property
    def _kinds(self) -> Mapping[str, tuple[str, ...]]:
        """Executor -> kinds of jobs that it said it runs when it came, () for all.

        Of an executor that came before the log was cut nothing is known: it may run any.
        """
        found: dict[str, tuple[str, ...]] = {}
        for entries in self._source.read(1, self._seq, ("presence.agent.*",)):
            for entry in entries:
                message = decode_message(entry.payload)
                if isinstance(message, CloudEvent) and message.type == "Seen":
                    found[untoken(entry.suffix.rpartition(".")[2])] = kinds_of(message.data)
        return found

    def none_runs(self, kind: str) -> str:
        """Return that none that is there runs jobs of that kind, "" if one may, or none is there."""
        there = [name for name, present in self._there().items() if present]
        return none_runs(kind, {name: self._kinds.get(name, ()) for name in there})

    def claim(self, state: SchedulerState, workload: Workload) -> Claim | None:
        """Return who has the present attempt of the workload's job, None if nobody has said so."""
        job = state.world.workloads.get(workload.record.parent or workload.key, workload).record.job
        if job is None:
            return None
        if job.key not in self._claims:
            self._claims[job.key] = self._claim(job)
        return self._claims[job.key]

    def _claim(self, reference: slices.JobReference) -> Claim | None:
        """Read on from the job's beginning, or from the snapshot; of commits only those that name it."""
        state, first = self._stored
        found: Claim | None = None
        attempt = 0
        known = state.jobs.get(reference.key) if state is not None else None
        marks = {reference.key.encode()}
        mine: set[WorkloadKey] = set()
        if known is not None and known.uid == reference.uid:
            attempt = known.attempt
            mine |= {known.record.key, known.dispatched or known.record.key}
            if known.phase is not Phase.PENDING and (known.executor or known.pods_ready):
                found = Claim(known.executor)
        first = max(first, seq_of(reference.uid))
        marks |= {key.encode() for key in mine}
        for entries in self._source.read(min(first, self._seq), self._seq, (slices.WRITER,)):
            for event, at in (pair for entry in entries for pair in _events(entry, marks)):
                match event:
                    case slices.JobResumed(job=reference.key) | slices.JobResized(job=reference.key):
                        mine.add(event.workload)
                        marks.add(event.workload.encode())
                        if event.attempt != attempt:
                            found, attempt = None, event.attempt
                    case slices.JobClaimed(job=reference.key, executor=executor):
                        found = Claim(executor, at)
                    case slices.WorkloadStopped() if event.workload in mine:
                        found = None
                    case slices.WorkloadPodsReady(ready=True) if event.workload in mine and found is None:
                        found = Claim("", at)
        return found

    def controller_was_there(self, name: str) -> bool:
        """Tell whether a controller of checks ever was there: who was not is not said to be lost, either.

        The first message about it will do.
        """
        return any(self._source.read(1, self._seq, (presence_suffix("controller", name),)))


def _events(entry: Entry, marks: Iterable[bytes]) -> Iterator[tuple[Event, Micros]]:
    """Yield the events of a commit, with their times, if any of *marks* stands in it."""
    if any(mark in entry.payload for mark in marks):
        with contextlib.suppress(CommitDecodeError):
            for step in decode_commit(entry.payload, entry.suffix, entry.seq).steps:
                yield from ((event, step.at) for event in step.events)


__all__ = ["Executors"]
