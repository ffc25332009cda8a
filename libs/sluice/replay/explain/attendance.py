"""Who has taken which attempt, and who is there: what the log says of executors and of checks' controllers.

The scheduler does not know of it. It is read when asked for, of the few whom an answer is about.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import get_args

from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.workload import Workload
from sluice.events.base import Micros, WorkloadKey
from sluice.events.codec import CloudEvent, CommitDecodeError, decode_commit, decode_message
from sluice.events.ids import seq_of
from sluice.events.slices import WRITER, JobClaimed, JobResumed, WorkloadPodsReady, WorkloadStopped
from sluice.protocol.subjects import untoken
from sluice.replay.source.source import Source

AGENT, CONTROLLER = "agent", "controller"
_KINDS = JobClaimed | JobResumed | WorkloadPodsReady | WorkloadStopped
_MARKS = tuple(kind.__name__.encode() for kind in get_args(_KINDS))


@dataclass(frozen=True)
class Taken:
    """Who has taken the attempt that runs, and when it was said; '' for an executor that tells no name."""

    executor: str
    since: Micros


@dataclass
class Attendance:
    """What *source* says as of *seq*."""

    source: Source
    seq: int
    _present: dict[str, dict[str, bool]] = field(default_factory=dict)
    _taken: dict[WorkloadKey, Taken | None] = field(default_factory=dict)

    def there(self, kind: str, name: str) -> bool:
        """Tell whether the log has it as there."""
        return self._known(kind).get(name, False)

    def anybody(self, kind: str) -> bool:
        return any(self._known(kind).values())

    def ever(self, kind: str, name: str) -> bool:
        """Tell whether it ever was there."""
        return name in self._known(kind)

    def _known(self, kind: str) -> dict[str, bool]:
        if kind not in self._present:
            found: dict[str, bool] = {}
            for entries in self.source.read(1, self.seq, (f"presence.{kind}.*",)):
                for entry in entries:
                    message = decode_message(entry.payload)
                    name = untoken(entry.suffix.rpartition(".")[2])
                    if not isinstance(message, CloudEvent):
                        continue
                    if message.type == "Seen" or name in found:
                        found[name] = message.type == "Seen"
            self._present[kind] = found
        return self._present[kind]

    def taken(self, state: SchedulerState, workload: Workload) -> Taken | None:
        """Return who has the present attempt of the workload's job, None if nobody has said so."""
        key = workload.record.parent or workload.key
        if key not in self._taken:
            self._taken[key] = self._last_claim(state.world.workloads.get(key, workload))
        return self._taken[key]

    def _last_claim(self, workload: Workload) -> Taken | None:
        if workload.record.job is None:
            return None
        job, found, attempt = workload.record.job.key, None, 0
        for at, event in self._events(max(1, self.source.first, seq_of(workload.record.job.uid))):
            if isinstance(event, WorkloadStopped):
                found = None if event.workload == workload.key else found
            elif isinstance(event, WorkloadPodsReady):
                if event.workload == workload.key and event.ready and found is None:
                    found = Taken("", at)
            elif event.job != job:
                continue
            elif isinstance(event, JobClaimed):
                found = Taken(event.executor, at)
            elif event.attempt != attempt:
                found, attempt = None, event.attempt
        return found

    def _events(self, first: int) -> Iterator[tuple[Micros, _KINDS]]:
        for entries in self.source.read(min(first, self.seq), self.seq, (WRITER,)):
            for entry in entries:
                if not any(mark in entry.payload for mark in _MARKS):
                    continue
                with contextlib.suppress(CommitDecodeError):
                    for step in decode_commit(entry.payload, entry.suffix, entry.seq).steps:
                        yield from ((step.at, event) for event in step.events if isinstance(event, _KINDS))


__all__ = ["AGENT", "CONTROLLER", "Attendance", "Taken"]
