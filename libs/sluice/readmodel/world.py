"""Everything the api service knows: a fold over the whole log."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from sluice.core.config.objects import Objects
from sluice.core.views.present.job import is_over
from sluice.core.views.view import View
from sluice.events import scheduler, slices
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.codec import FOREIGN, CommitDecodeError, decode_commit
from sluice.events.commit import Step
from sluice.events.envelope import Message
from sluice.log.cell import CellFold, CellState, Presence
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS, job_of, nobody_reads

from .changes import Changes
from .jobs import FOLDS, Jobs
from .touched import MARKS, STAY, Touched, queue_of

log = structlog.get_logger("sluice.readmodel.world")

AGENT = "agent/"
"""What precedes the name of an agent in `CellState.presence`."""
_CELL = CellFold()
_COMMITS = frozenset(COMMITS)
_RELEASES = (scheduler.QuotaReleased, slices.WorkloadFinished, slices.WorkloadDeleted)


class _Racing:
    """The variants that people see listed: those of jobs that are not over."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __contains__(self, key: object) -> bool:
        return self._view.live(WorkloadKey(str(key))) is not None


@dataclass(slots=True)
class World:
    """The state; only `fold` changes it."""

    cell: CellState = field(default_factory=CellState)
    """What replay shows, too, and reads from this service's snapshots."""
    changes: Changes = field(default_factory=Changes)
    jobs: Jobs = field(default_factory=Jobs)
    heads: dict[str, tuple[int, Micros]] = field(default_factory=dict)
    """Writer -> sequence and time of its last commit."""
    seq: int = 0
    at: Micros = 0
    """Of the last entry folded."""
    ended: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    """What readers remember of what has ended, by kind and key: version and phase. Opening it takes long."""
    counted: dict[str, Any] = field(default_factory=dict)
    """What readers have counted of a kind, to go on from with what has changed since."""
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
            self.jobs.pack()

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
            return AGENT + key in self.cell.presence
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
        elif nobody_reads(entry.suffix):
            self.jobs.rejected += 1
        elif entry.suffix.startswith("presence."):
            self._presence(entry)

    def _presence(self, entry: Entry) -> None:
        before = self.agents()
        _CELL.apply(self.cell, Message(subject=entry.suffix, payload=entry.payload), entry.seq, entry.at)
        after = self.agents()
        self.changes.touch_all("Agent", [n for n in after if after[n] is not before.get(n)], entry.seq)
        for name in [n for n in before if n not in after]:
            self.changes.drop("Agent", name, entry.seq)

    def agents(self) -> dict[str, Presence]:
        """Return the agents that are there, or were, by name."""
        known = self.cell.presence.items()
        return {key.removeprefix(AGENT): who for key, who in known if key.startswith(AGENT)}

    def running(self) -> Counter[str]:
        """Return how many jobs each executor has been given and runs."""
        if self._running[0] != self.seq:
            live = (job for job in self.view.jobs.unpacked() if job.running and not is_over(job))
            self._running = (self.seq, Counter(job.executor for job in live))
        return self._running[1]
