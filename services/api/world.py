"""Everything the api service knows: a fold over the whole log."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import structlog

from sluice.api.errors import UNREADABLE
from sluice.core.config.objects import Objects
from sluice.core.views.present.job import is_over
from sluice.core.views.view import View
from sluice.events import job, scheduler, slices
from sluice.events.base import Event, Micros
from sluice.events.codec import FOREIGN, CommitDecodeError, decode_commit, decode_message
from sluice.events.commit import Step
from sluice.events.envelope import Message
from sluice.log.cell import CellFold, CellState
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS, names

from .changes import Changes
from .jobs import FOLDS, Jobs, job_of
from .touched import MARKS, STAY, Touched, queue_of

log = structlog.get_logger("sluice.api.world")

MAX_LOST = 1_000
"""Agents that are shown after they were lost."""

_CELL = CellFold()
_COMMITS = frozenset(COMMITS)
_RELEASES = (scheduler.QuotaReleased, slices.WorkloadFinished, slices.WorkloadDeleted)


@dataclass(slots=True)
class Presence:
    """An agent or check controller, as its shell recorded it."""

    kind: str
    name: str
    lost: bool
    since: Micros
    message: str = ""
    flavors: tuple[str, ...] = ()
    seq: int = 0


class _Racing:
    """The variants that people see listed: those of jobs that are not over."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __contains__(self, key: object) -> bool:
        workload = self._view.workloads.get(key)  # type: ignore[call-overload]
        return workload is not None and workload.finished_at is None


@dataclass(slots=True)
class World:
    """The state; only `fold` changes it."""

    cell: CellState = field(default_factory=CellState)
    """What replay shows, too, and reads from this service's snapshots."""
    changes: Changes = field(default_factory=Changes)
    jobs: Jobs = field(default_factory=Jobs)
    presence: dict[tuple[str, str], Presence] = field(default_factory=dict)
    heads: dict[str, tuple[int, Micros]] = field(default_factory=dict)
    """Writer -> sequence and time of its last commit."""
    seq: int = 0
    at: Micros = 0
    """Of the last entry folded."""
    _running: tuple[int, Counter[str]] = (0, Counter())

    @property
    def objects(self) -> Objects:
        return self.cell.objects

    @property
    def view(self) -> View:
        return self.cell.view

    def fold(self, entries: Iterable[Entry]) -> None:
        """Fold entries of the log, in order."""
        for entry in entries:
            self.seq, self.at = entry.seq, entry.at
            if entry.suffix in _COMMITS:
                self._commit(entry)
            else:
                self._message(entry)

    # Commits

    def _commit(self, entry: Entry) -> None:
        self.heads[entry.suffix] = (entry.seq, entry.at)
        try:
            commit = decode_commit(entry.payload, entry.suffix, entry.seq)
        except CommitDecodeError as error:
            # Readers of a newer writer's events go on; what they cannot read they cannot show.
            log.error("commit not readable", seq=entry.seq, writer=entry.suffix, error=str(error))
            return
        if commit is FOREIGN:
            self.jobs.rejected += 1
        self.steps(entry.seq, commit.steps)

    def steps(self, seq: int, steps: Iterable[Step]) -> None:
        """Fold the steps of the commit at *seq*."""
        # What changes has changed at the commit's sequence, however often it does.
        changed: Touched = defaultdict(dict)
        for step in steps:
            for event in step.events:
                self._event(event, seq, step.at, changed)
        for kind, keys in changed.items():
            places = self._places(kind)
            if len(places) == 1:
                gone = [key for key in keys if key not in places[0]]
            else:
                gone = [key for key in keys if not any(key in place for place in places)]
            for key in gone:
                del keys[key]
                self.changes.drop(kind, key, seq)
            self.changes.touch_all(kind, keys, seq)

    def _event(self, event: Event, seq: int, at: Micros, changed: Touched) -> None:
        kind = type(event)
        mark = MARKS[kind]
        if kind not in STAY:
            mark(self.view, event, changed)
        if isinstance(event, _RELEASES):
            self._release(event, seq, at)
        else:
            _CELL.apply(self.cell, event, seq, at)
        if kind in FOLDS:
            for forgotten in self.jobs.event(event):
                self.changes.drop("Job", forgotten, seq)
        mark(self.view, event, changed)

    def _release(
        self,
        event: scheduler.QuotaReleased | slices.WorkloadFinished | slices.WorkloadDeleted,
        seq: int,
        at: Micros,
    ) -> None:
        """Fold what ends a workload or its run, which means more than the view can tell afterwards.

        How its job ended, and which queues may go.
        """
        workload = self.view.workloads.get(event.workload)
        if workload is None:
            _CELL.apply(self.cell, event, seq, at)
            return
        key = workload.record.job.key if workload.record.job is not None else None
        queue = queue_of(workload)
        _CELL.apply(self.cell, event, seq, at)
        if key is not None and isinstance(event, slices.WorkloadFinished):
            self.jobs.finished(key, event.cause)
        elif key is not None and isinstance(event, slices.WorkloadDeleted) and key not in self.view.jobs:
            self.jobs.forget(key)
        if queue and not self.view.reserving(queue):
            self.objects.let_go("ClusterQueue", queue, seq)

    def exists(self, kind: str, key: str) -> bool:
        """Tell whether people can get the object."""
        if kind == "Agent":
            return ("agent", key) in self.presence
        return any(key in place for place in self._places(kind))

    def _places(self, kind: str) -> Sequence[Container[str]]:
        """Return where objects of this kind are, one of which is enough; agents excepted."""
        if kind == "Job":
            return (self.view.jobs, self.jobs.by_key)
        if kind == "Variant":
            return (_Racing(self.view),)
        if kind in ("Workload", "Slice"):
            return (self.view.workloads,)
        return (self.objects.by_kind.get(kind, {}),)

    # Messages from outside

    def _message(self, entry: Entry) -> None:
        key = job_of(entry.suffix)
        if key is not None:
            if self.jobs.message(key, entry):
                if self.exists("Job", key):
                    self.changes.touch("Job", key, entry.seq)
                else:
                    self.changes.drop("Job", key, entry.seq)
            return
        parts = names(entry.suffix)
        if parts[0] == "presence" and len(parts) == 3:
            self._presence_message(parts[1], parts[2], entry)

    def _presence_message(self, kind: str, name: str, entry: Entry) -> None:
        _CELL.apply(self.cell, Message(subject=entry.suffix, payload=entry.payload), entry.seq, entry.at)
        message = decode_message(entry.payload)
        if isinstance(message, tuple) or message.type not in ("Seen", "Lost"):
            return
        text = ""
        flavors: tuple[str, ...] = ()
        try:
            if message.type == "Seen":
                seen = msgspec.json.decode(message.data, type=job.Seen)
                text, flavors = seen.message, tuple(seen.flavors)
            else:
                text = msgspec.json.decode(message.data, type=job.Lost).message
        except UNREADABLE:
            return
        lost = message.type == "Lost"
        before = self.presence.get((kind, name))
        if lost and before is not None:
            flavors = before.flavors
        self.presence[kind, name] = Presence(kind, name, lost, entry.at, text, flavors, entry.seq)
        if kind == "agent":
            self.changes.touch("Agent", name, entry.seq)
            if lost:
                self._forget_agents(entry.seq)

    def _forget_agents(self, seq: int) -> None:
        """Forget who was lost longest ago, when they are too many."""
        gone = [found for found in self.presence.values() if found.kind == "agent" and found.lost]
        for found in sorted(gone, key=lambda agent: agent.seq)[: max(0, len(gone) - MAX_LOST)]:
            del self.presence["agent", found.name]
            self.changes.drop("Agent", found.name, seq)

    def running(self) -> Counter[str]:
        """Return how many jobs each executor has been given and runs."""
        if self._running[0] != self.seq:
            live = (job for job in self.view.jobs.values() if job.running and not is_over(job))
            self._running = (self.seq, Counter(job.executor for job in live))
        return self._running[1]
