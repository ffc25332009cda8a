"""Preemption loops and thrashing: work that is begun and stopped again and again, found and explained.

Nothing of it need be wrong, each decision may be by the rules. It costs work all the same.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sluice.core.workload.reasons import DEACTIVATED, FLAVOR_MIGRATION, PODS_READY_TIMEOUT, PREEMPTED
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.scheduler import Admitted, Evicted, Preempted
from sluice.events.slices import (
    JobResumed,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadUpdated,
)
from sluice.events.variants import VariantCreated
from sluice.log.fold import steps_of
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, tracked

from .watching import Violation

__all__ = ["find"]

THRASHING = 3
"""Stops of one job that ran after which it is reported."""
SHOWN = 5

RULES = {
    "InClusterQueue": "withinClusterQueue of its queue lets it",
    "InCohortReclamation": "its queue took back what it had lent (reclaimWithinCohort)",
    "InCohortFairSharing": "the other queue had more than its fair share",
    "InCohortReclaimWhileBorrowing": "borrowWithinCohort lets it, though its own queue borrows",
}


@dataclass
class _Life:
    """What was lost of one job."""

    evictions: list[tuple[int, Micros, str]] = field(default_factory=list)
    """(sequence, time, reason)."""
    running: WorkloadKey | None = None
    """The workload that was admitted last, of a job that grows its newest slice."""
    since: Micros | None = None
    """When the job began to run."""
    dispatched: bool = False
    """It was really told to run: else nothing began, and nothing is lost."""
    lost_us: int = 0


class _Job(NamedTuple):
    """A job, or a workload of none; one that is submitted again under its name is another one."""

    name: str
    uid: str = ""


class _Pair(NamedTuple):
    """*edits*: of the two jobs, and of the configuration, when the one preempted the other."""

    preemptor: _Job
    victim: _Job
    edits: int


_CONFIGURATION: Final = _Job("")


@dataclass
class _Finder:
    pairs: dict[_Pair, list[tuple[int, Micros, str]]] = field(default_factory=dict)
    """When, and by which rule."""
    edits: Counter[_Job] = field(default_factory=Counter)
    """How often a job was edited, or `_CONFIGURATION`. Who strikes back by other rules loops not."""
    lives: dict[_Job, _Life] = field(default_factory=dict)
    job_of: dict[WorkloadKey, _Job] = field(default_factory=dict)
    """A workload's job; a variant's is its parent's."""
    parent_of: dict[str, WorkloadKey] = field(default_factory=dict)

    def take(self, event: Event, seq: int, at: Micros) -> None:
        match event:
            case WorkloadCreated() if event.workload.job is not None:
                self.job_of[event.workload.key] = _Job(event.workload.job.key, event.workload.job.uid)
            case VariantCreated() if event.workload.parent is not None:
                parent = event.workload.parent
                self.job_of[event.workload.key] = self._job(parent)
                self.parent_of[event.workload.key] = parent
            case Admitted():
                life = self._life(event.workload)
                life.running = event.workload
                if life.since is None:
                    life.since, life.dispatched = at, False
            case JobResumed():
                self._life(event.workload).dispatched = True
            case Evicted():
                self._stopped(event, seq, at)
            case WorkloadFinished() | WorkloadDeleted():
                self._over(event.workload)
            case Preempted():
                one, other, edits = self._job(event.preemptor), self._job(event.workload), self.edits
                pair = _Pair(one, other, edits[_CONFIGURATION] + edits[one] + edits[other])
                self.pairs.setdefault(pair, []).append((seq, at, event.rule))
            case ObjectApplied() | ObjectDeleted():
                self.edits[_CONFIGURATION] += 1
            case WorkloadUpdated():
                self.edits[self._job(event.workload)] += 1
            case _:
                pass

    def _stopped(self, event: Evicted, seq: int, at: Micros) -> None:
        """Note the end of what ran; neither what people ask for, nor a reservation beside it, is a loss."""
        life = self._life(event.workload)
        if life.since is None or life.running != event.workload:
            return
        if life.dispatched and (event.reason != DEACTIVATED or event.underlying_cause):
            life.evictions.append((seq, at, event.reason))
            life.lost_us += at - life.since
        life.running = life.since = None

    def _over(self, key: WorkloadKey) -> None:
        """A workload is gone, and a variant of it with it."""
        life = self.lives.get(self._job(key))
        if life is None or life.running is None:
            return
        if key in (life.running, self.parent_of.get(life.running)):
            life.running = life.since = None

    def _job(self, key: WorkloadKey) -> _Job:
        return self.job_of.get(key) or _Job(key)

    def _life(self, key: WorkloadKey) -> _Life:
        return self.lives.setdefault(self._job(key), _Life())

    def loops(self) -> Iterator[Violation]:
        """Yield pairs that preempt each other, each once, where the second of them struck back."""
        told: dict[_Pair, None] = {}
        # In the order of their first strikes, so that who began comes first.
        for pair, there in self.pairs.items():
            one, other, edits = pair
            reverse = _Pair(other, one, edits)
            back = self.pairs.get(reverse)
            if back is None or reverse in told:
                continue
            told[pair] = None
            seq, at, _ = back[0]
            first, second = one.name, other.name
            text = (
                f"{first} and {second} preempt each other: "
                f"{first} did {_times(there)}, {second} {_times(back)}. "
                f"{_because(first, there)}; {_because(second, back)}."
            )
            yield Violation("loops", seq, at, text)

    def thrashing(self) -> Iterator[Violation]:
        for (name, _), life in self.lives.items():
            if len(life.evictions) < THRASHING:
                continue
            reasons: dict[str, int] = {}
            for _, _, reason in life.evictions:
                reasons[reason] = reasons.get(reason, 0) + 1
            causes = ", ".join(f"{count} x {reason}" for reason, count in reasons.items())
            seqs = ", ".join(str(seq) for seq, _, _ in life.evictions[:SHOWN])
            more = ", ..." if len(life.evictions) > SHOWN else ""
            text = (
                f"{name} was stopped {len(life.evictions)} times ({causes}), at {seqs}{more}; it had run for "
                f"{life.lost_us / 1e6:.1f} s in all by the last of them. {_advice(reasons)}"
            )
            seq, at, _ = life.evictions[THRASHING - 1]
            yield Violation("thrashing", seq, at, text)


def _times(strikes: list[tuple[int, Micros, str]]) -> str:
    seqs = ", ".join(str(seq) for seq, _, _ in strikes[:SHOWN])
    return f"{len(strikes)} times (at {seqs}{', ...' if len(strikes) > SHOWN else ''})"


def _because(name: str, strikes: list[tuple[int, Micros, str]]) -> str:
    rules = dict.fromkeys(rule for _, _, rule in strikes)
    return f"{name} because " + " and ".join(f"{RULES.get(rule, rule)} ({rule})" for rule in rules)


def _advice(reasons: dict[str, int]) -> str:
    most, *others = (reason for reason, count in reasons.items() if count == max(reasons.values()))
    if others:
        return f"See what {', '.join([most, *others[:-1]])} and {others[-1]} come from with `sluice trace`."
    if most == PREEMPTED:
        return "A higher priority, less borrowing, or a quota of its own would keep it running."
    if most == FLAVOR_MIGRATION:
        return "A lastAcceptableFlavorName, deleteDelaySeconds or RetainFirstAdmission would keep it there."
    if most == PODS_READY_TIMEOUT:
        return "Its pods are not ready in time: see waitForPodsReady, or its image."
    return f"See what {most} comes from with `sluice trace`."


def find(source: Source, progress: Progress | None = None) -> Iterator[Violation]:
    """Yield loops and thrashing, in the order in which they could be told."""
    finder = _Finder()
    for entries in tracked(source.read(1, None, ("slices", "variants", "scheduler")), progress):
        for entry in entries:
            for step in steps_of(entry):
                for event in step.events:
                    finder.take(event, entry.seq, step.at)
    yield from sorted([*finder.loops(), *finder.thrashing()], key=lambda found: (found.seq, found.text))
