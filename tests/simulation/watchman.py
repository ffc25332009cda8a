"""What must hold: looked at as entries come into the log, as processes start and end, and when all is quiet.

The log's own invariants (`sluice.replay.lint.invariants`) look at stand-bys that fold every entry at once;
those
that need the truth about what runs are in `invariants`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.core.variants.decider import VariantController
from sluice.events.base import JobKey, WorkloadKey
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.fold import Fold
from sluice.replay.lint.idle_quota import idle
from sluice.replay.lint.invariants import OBSERVERS
from sluice.replay.lint.preemption_invariants import unneeded
from sluice.replay.lint.watching import Watched

from . import invariants, obeyed
from .log import steps_of
from .observers import MORE

if TYPE_CHECKING:
    from .cell import Cell
    from .replica import Service


class Broken(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant, self.text = invariant, text


RARELY = frozenset({"state", "idle-quota"})
"""Observers that look at whole states: left to `rested` and to where all is quiet."""


class Stander:
    """A stand-by that folds every entry of its service at once, under the eyes of the log's invariants."""

    def __init__(self, decider: Any) -> None:
        observers = [
            observer()
            for observer in (*OBSERVERS.values(), *MORE)
            if observer.decider is type(decider) and observer.name not in RARELY
        ]
        self.inner = decider
        self.watched = Watched(decider, observers)
        self.fold: Fold[Any] = Fold(self.watched, decode=steps_of)  # type: ignore[arg-type]
        self.steps = 0

    def take(self, entry: Entry) -> Iterable[tuple[str, str]]:
        watched, fold = self.watched, self.fold
        for seq, step in fold.take_in((entry,)):
            self.steps += 1
            watched.settle(fold.state, seq, step.at)
        if watched.found:
            found, watched.found = watched.found, []
            return [(name, f"{text} (at {seq or entry.seq})") for name, seq, _, text in found]
        return ()


@dataclass
class Watchman:
    cell: "Cell"
    jobs: dict[WorkloadKey, tuple[JobKey, str]] = field(default_factory=dict)
    """Workload -> its job, and that one's uid."""
    workloads: dict[JobKey, dict[WorkloadKey, None]] = field(default_factory=dict)
    """Job -> its workloads, variants included."""
    preempted: dict[JobKey, int] = field(default_factory=dict)
    """How often the job was preempted since anybody submitted or edited anything, or asked for a retry."""
    lost_at: dict[str, int] = field(default_factory=dict)
    """Executor -> where the log says last that it was lost."""
    shrunk: dict[JobKey, list[tuple[int, dict[str, int]]]] = field(default_factory=dict)
    """Job -> when it shrank (sequence), and how many pods of each set it had."""
    seen: dict[str, int] = field(default_factory=dict)
    """Types of events -> how many."""
    asked: dict[WorkloadKey, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """Workload -> its attempt, and the checks that count for it."""
    retry_at: dict[WorkloadKey, tuple[int, int]] = field(default_factory=dict)
    """Workload that its checks have sent back -> of which attempt, and until when it is to wait."""
    garbage: set[bytes] = field(default_factory=set)
    """Ids of messages that nobody can take."""
    answered: set[int] = field(default_factory=set)
    """Sequences of messages about jobs that the slice-aggregator has answered."""
    trace: list[str] | None = None

    def __post_init__(self) -> None:
        self.standers = {
            "scheduler": Stander(Scheduler()),
            "slices": Stander(SliceAggregator()),
            "variants": Stander(VariantController()),
        }
        self._looked_at: tuple[object, int] = (None, 0)
        """A leader's life, and how many events it had folded."""

    @property
    def scheduler(self) -> Any:
        """The scheduler's state, as the log has it."""
        return self.standers["scheduler"].fold.state

    @property
    def slices(self) -> Any:
        return self.standers["slices"].fold.state

    def fail(self, invariant: str, text: str) -> None:
        raise Broken(invariant, text)

    # what the api asks before it deletes

    def reserving(self, cluster_queue: str) -> int:
        found = self.scheduler.world.cluster_queues.get(cluster_queue)
        return 0 if found is None else len(found.workloads)

    def unadmitted(self, cluster_queue: str) -> int:
        found = self.scheduler.world.cluster_queues.get(cluster_queue)
        return 0 if found is None else sum(w.admitted_at is None for w in found.workloads.values())

    def waiting(self, local_queue: str) -> int:
        members = self.scheduler.members.get(local_queue, ())
        return sum(self.scheduler.world.workloads[key].assignment is None for key in members)

    def holding(self, local_queue: str) -> tuple[int, int]:
        members = [self.scheduler.world.workloads[key] for key in self.scheduler.members.get(local_queue, ())]
        reserving = [w for w in members if w.assignment is not None]
        admitted = sum(w.admitted_at is not None for w in reserving)
        return admitted, len(reserving) - admitted

    def of_priority_class(self, name: str) -> int:
        return sum(w.record.priority_class == name for w in self.scheduler.world.workloads.values())

    def unfinished_jobs(self, namespace: str) -> int:  # noqa: ARG002
        return len(self.slices.jobs)

    def unfinished_of_kind(self, kind: str) -> int:
        references = [job.record.job for job in self.slices.jobs.values()]
        return sum(one is not None and one.kind == kind for one in references)

    def touched_by_people(self) -> None:
        """Somebody has submitted or edited something: what circles is counted anew."""
        self.preempted.clear()

    # entries

    def appended(self, entry: Entry, readers: Iterable["Service"]) -> None:
        """Look at a new entry with the eyes of the services that read it."""
        suffix = entry.suffix
        steps: Iterable[Step] = ()
        if "." not in suffix:
            steps = steps_of(entry)
            for step in steps:
                for event in step.events:
                    handler = invariants.ON_EVENT.get(type(event))
                    if handler is not None:
                        handler(self, event, entry)
        elif suffix.startswith("presence.agent."):
            invariants.presence(self, entry)
        for service in readers:
            stander = self.standers.get(service.writer)
            if stander is not None:
                for name, text in stander.take(entry):
                    self.fail(name, text)
        if suffix == "slices":
            obeyed.check(self, entry)
        if suffix == "scheduler":
            invariants.all_run_with_quota(self)

    def rested(self) -> None:
        """Look at a scheduler that has nothing more to decide: whoever could have free quota has it, and no
        preemption is pending for nothing."""
        leader = self.cell.leader("scheduler")
        if leader is None or not leader.machine.settled:
            return
        fold = leader.machine.fold
        life, folded = self._looked_at
        if fold is not life or fold.folded != folded:
            self._looked_at = (fold, fold.folded)
            for text in idle(leader.state, settled=True):
                self.fail("idle-quota", text)
            for _, text in unneeded(leader.state):
                self.fail("needed-promise", text)

    def ran(self) -> None:
        """Look at the jobs whose processes were started or resized."""
        truth = self.cell.truth
        if truth.changed:
            changed, truth.changed = truth.changed, {}
            for job in changed:
                invariants.runs_with_quota(self, job)
                invariants.runs_once(self, job)


__all__ = ["Broken", "Stander", "Watchman"]
