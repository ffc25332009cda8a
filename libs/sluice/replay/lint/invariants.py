"""What must hold of any log (DB6), looked at event by event, in the order in which the deciders saw it.

    for violation in broken(source, ("quota", "one-variant")): ...

Each invariant here is an `Observer`: it hears of the events it asks for, right after they were folded.
Several share one fold. Those that need another way to look (chains, whole states) are in `lint`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.api.labels import GATE_CONCURRENT_ADMISSION
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.invariants import reservation_violations, violations
from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.dispatch import dispatch_entry
from sluice.core.slices.state import State as JobState
from sluice.core.variants.decider import VariantController
from sluice.core.world.variants import parent_holds
from sluice.events.base import Event, JobKey, Micros, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.catalogue import writer_of
from sluice.events.commit import Step
from sluice.events.scheduler import (
    Admitted,
    Preempted,
    QuotaReleased,
    QuotaReserved,
    WorkloadSliceReplaced,
)
from sluice.events.slices import (
    JobResized,
    JobResumed,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadUpdated,
)
from sluice.events.variants import ParentAdmitted, ParentReleased, PreemptionGateOpened, VariantDeleted
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, patterns_of

from .check_invariants import CHECK_OBSERVERS
from .edit_invariants import EDIT_OBSERVERS
from .family_invariants import FAMILY_OBSERVERS
from .idle_quota import IdleObserver
from .observer import STOOD, Observer
from .preemption_circles import CircleObserver
from .preemption_invariants import PREEMPTION_OBSERVERS
from .slice_invariants import SLICE_OBSERVERS


@dataclass(frozen=True)
class Violation:
    """`seq`: of the message whose events broke it."""

    invariant: str
    seq: int
    at: Micros
    text: str


# As the scheduler saw it


class QuotaObserver(Observer):
    """Quota is never given out twice: no reservation exceeds what is available, at any node (SC3)."""

    name = "quota"
    decider = Scheduler

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        return {QuotaReserved: reservation_violations}


class ReservationObserver(Observer):
    """Quota is reserved once, for live workloads, and goes with them; nobody is admitted without it."""

    name = "reservations"
    decider = Scheduler

    def __init__(self) -> None:
        self.held: dict[WorkloadKey, str] = {}
        """Workload -> the queue that is charged."""

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        return {
            QuotaReserved: self._reserved,
            Admitted: self._admitted,
            QuotaReleased: self._released,
            WorkloadFinished: self._ended,
            WorkloadDeleted: self._ended,
            WorkloadSliceReplaced: self._ended,
            VariantDeleted: self._ended,
        }

    def _reserved(self, state: SchedulerState, event: QuotaReserved) -> Iterator[str]:
        key = event.workload
        workload = state.world.workloads.get(key)
        if workload is None or workload.finished:
            yield f"{key} has quota of {event.cluster_queue}, but there is no such live workload"
        elif key in self.held and key in self._holders(state, self.held[key]):
            yield f"{key} has quota of {event.cluster_queue}, and had it before"
        elif key in state.world.families:
            yield f"{key} has quota of {event.cluster_queue}, but it is a parent: its variants have quota"
        elif parent_holds(state.world, workload):
            yield f"{key} has quota of {event.cluster_queue}, and its parent has quota of its own"
        self.held[key] = event.cluster_queue

    def _admitted(self, state: SchedulerState, event: Admitted) -> Iterator[str]:
        workload = state.world.workloads.get(event.workload)
        if workload is None or workload.assignment is None:
            yield f"{event.workload} was admitted without quota"

    def _released(self, _: SchedulerState, event: QuotaReleased) -> Iterator[str]:
        if self.held.pop(event.workload, None) is None:
            yield f"{event.workload} gave back quota that it did not have"

    def _ended(
        self, state: SchedulerState, event: WorkloadFinished | WorkloadDeleted | VariantDeleted
    ) -> Iterator[str]:
        queue = self.held.pop(event.workload, None)
        if queue is not None and event.workload in self._holders(state, queue):
            yield f"{event.workload} is over, and {queue} still holds quota for it"

    @staticmethod
    def _holders(state: SchedulerState, queue: str) -> Mapping[WorkloadKey, Any]:
        found = state.world.cluster_queues.get(queue)
        return {} if found is None else found.workloads


class StateObserver(Observer):
    """Usage is what reservations charge; no reservation without a live workload; all lists agree.

    A whole state takes long to look at, so it is looked at ever more rarely as the log goes on. What is found
    may have begun after the last good look: `_first_bad` says where.
    """

    name = "state"
    decider = Scheduler

    def __init__(self) -> None:
        self.steps = 0
        """Seen."""
        self.good = 0
        """So many were looked at or came before one that was, and nothing was wrong."""
        self._due = 16
        self._over = False

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        return {}

    def settled(self, state: SchedulerState) -> Iterator[str]:
        self.steps += 1
        if self.steps >= self._due:
            yield from self.ended(state)

    def ended(self, state: SchedulerState) -> Iterator[str]:
        if self._over:
            return
        self._due = self.steps + max(16, self.steps // 10)
        if violations(state):
            self._over = True
            yield ""
        else:
            self.good = self.steps


class VariantObserver(Observer):
    """A parent has at most one admitted variant at any time (CA10)."""

    name = "one-variant"
    decider = Scheduler

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        return {Admitted: self._admitted}

    def _admitted(self, state: SchedulerState, event: Admitted) -> Iterator[str]:
        workload = state.world.workloads.get(event.workload)
        parent = None if workload is None else workload.record.parent
        if parent is None:
            return
        admitted = [v.key for v in state.world.families.get(parent, {}).values() if v.admitted_at is not None]
        if len(admitted) > 1:
            yield f"{parent} has {len(admitted)} admitted variants: {', '.join(admitted)}"


class GateObserver(Observer):
    """At most one variant of a parent may preempt, and nobody does behind a closed gate (CA11)."""

    name = "one-gate"
    decider = Scheduler

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        return {PreemptionGateOpened: self._opened, Preempted: self._preempted}

    def _opened(self, state: SchedulerState, event: PreemptionGateOpened) -> Iterator[str]:
        family = state.world.families.get(event.parent, {})
        opened = [v.key for v in family.values() if GATE_CONCURRENT_ADMISSION in v.open_gates]
        if len(opened) > 1:
            yield f"{event.parent} has {len(opened)} variants that may preempt: {', '.join(opened)}"

    def _preempted(self, state: SchedulerState, event: Preempted) -> Iterator[str]:
        preemptor = state.world.workloads.get(event.preemptor)
        if preemptor is None:
            return
        closed = [g for g in preemptor.record.preemption_gates if g not in preemptor.open_gates]
        migrates = event.workload in state.world.families.get(preemptor.record.parent or WorkloadKey(""), {})
        if closed and not migrates:
            yield f"{event.preemptor} preempted {event.workload} behind its closed gate {closed[0]}"


class SliceObserver(Observer):
    """A job has at most one admitted workload and one that is to replace it (WS4)."""

    name = "two-slices"
    decider = Scheduler

    def __init__(self) -> None:
        self.live: dict[JobKey, dict[WorkloadKey, None]] = {}
        self.job_of: dict[WorkloadKey, JobKey] = {}
        self.due: dict[JobKey, None] = {}

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        return {
            WorkloadCreated: self._created,
            Admitted: self._admitted,
            WorkloadFinished: self._gone,
            WorkloadDeleted: self._gone,
            WorkloadSliceReplaced: self._gone,
        }

    def _created(self, _: SchedulerState, event: WorkloadCreated) -> Iterable[str]:
        record = event.workload
        if record.job is not None:
            self.live.setdefault(record.job.key, {})[record.key] = None
            self.job_of[record.key] = record.job.key
            self.due[record.job.key] = None
        return ()

    def _admitted(self, _: SchedulerState, event: Admitted) -> Iterable[str]:
        if (job := self.job_of.get(event.workload)) is not None:
            self.due[job] = None
        return ()

    def _gone(self, _: SchedulerState, event: WorkloadFinished | WorkloadDeleted) -> Iterable[str]:
        job = self.job_of.pop(event.workload, None)
        if job is not None:
            self.live[job].pop(event.workload, None)
            if not self.live[job]:
                del self.live[job]
        return ()

    def settled(self, state: SchedulerState) -> Iterator[str]:
        # Between the events of one step the old slice and the new one may both be admitted.
        for job in self.due:
            slices = list(self.live.get(job, ()))
            if len(slices) > 2:
                yield f"{job} has {len(slices)} live workloads: {', '.join(slices)}"
            known = [state.world.workloads.get(key) for key in slices]
            admitted = [w.key for w in known if w is not None and w.admitted_at is not None]
            if len(admitted) > 1:
                yield f"{job} has {len(admitted)} admitted workloads: {', '.join(admitted)}"
        self.due.clear()


# As the slice-aggregator saw it


class UngatedObserver(Observer):
    """Never more pods may run than were granted, and none without a grant (WS7)."""

    name = "ungated"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.granted: dict[WorkloadKey, dict[str, int]] = {}
        self.due: dict[JobKey, None] = {}

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        return {
            QuotaReserved: self._reserved,
            ParentAdmitted: self._reserved,
            QuotaReleased: self._taken_back,
            ParentReleased: self._taken_back,
            WorkloadFinished: self._taken_back,
            WorkloadDeleted: self._taken_back,
            WorkloadSliceReplaced: self._taken_back,
            WorkloadUpdated: self._updated,
            JobResumed: self._told,
            JobResized: self._told,
        }

    def _reserved(self, _: JobState, event: QuotaReserved | ParentAdmitted) -> Iterable[str]:
        self.granted[event.workload] = _counts(event.pod_sets)
        return ()

    def _taken_back(self, _: JobState, event: QuotaReleased | WorkloadFinished) -> Iterable[str]:
        self.granted.pop(event.workload, None)
        return ()

    def _updated(self, state: JobState, event: WorkloadUpdated) -> Iterable[str]:
        granted = self.granted.get(event.workload)
        if granted is not None and event.pod_sets is not None:
            for name, count in _counts(event.pod_sets).items():
                granted[name] = min(granted.get(name, 0), count)
            if (job := state.by_workload.get(event.workload)) is not None:
                self.due[job.key] = None
        return ()

    def _told(self, _: JobState, event: JobResumed | JobResized) -> Iterable[str]:
        self.due[event.job] = None
        return ()

    def settled(self, state: JobState) -> Iterator[str]:
        for job in self.due:
            entry = dispatch_entry(state, job)
            if entry is None or entry.state != "Running":
                continue
            granted = self.granted.get(entry.workload)
            if granted is None:
                yield f"{job} may run without quota for {entry.workload}"
                continue
            for pods in entry.pod_sets:
                if pods.ungated > granted.get(pods.name, 0):
                    most = granted.get(pods.name, 0)
                    yield f"{job} may run {pods.ungated} pods of {pods.name}, {most} were granted"
        self.due.clear()


def _counts(pod_sets: Iterable[PodSet | PodSetAssignment]) -> dict[str, int]:
    return {pod_set.name: pod_set.count for pod_set in pod_sets}


# Looking


_KINDS: tuple[type[Observer], ...] = (
    StateObserver,
    QuotaObserver,
    ReservationObserver,
    VariantObserver,
    SliceObserver,
    UngatedObserver,
    GateObserver,
    CircleObserver,
    IdleObserver,
    *CHECK_OBSERVERS,
    *EDIT_OBSERVERS,
    *FAMILY_OBSERVERS,
    *SLICE_OBSERVERS,
    *PREEMPTION_OBSERVERS,
)

OBSERVERS: Mapping[str, type[Observer]] = {kind.name: kind for kind in _KINDS}


NEVER: Micros = 1 << 62


@dataclass
class Watched:
    """A decider whose fold observers look at. Whoever folds asks for `found` and empties it."""

    inner: Decider[Any]
    observers: list[Observer]
    found: list[tuple[str, int, Micros, str]] = field(default_factory=list)
    """(invariant, sequence or 0 for an own event, time, text)."""
    _hear: dict[type[Event], list[tuple[str, Callable[[Any, Any], Iterable[str]]]]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.writer, self.reads = self.inner.writer, self.inner.reads
        self.initial = self.inner.initial
        # Most deciders have nobody who wants to look at what stands still.
        self._patient = [o for o in self.observers if type(o).stood is not Observer.stood]
        self._folded = self._seq = 0
        self._at = self._due = NEVER
        for observer in self.observers:
            for kind, look in observer.hears().items():
                self._hear.setdefault(kind, []).append((observer.name, look))

    def apply(self, state: Any, event: Event, seq: int, at: Micros) -> None:
        if at >= self._due:
            self._look_patiently(state)
        self.inner.apply(state, event, seq, at)
        if self._patient:
            self._folded += 1
            self._seq, self._at, self._due = seq, at, at + STOOD
        for name, look in self._hear.get(type(event), ()):
            for text in look(state, event):
                own = writer_of(type(event)) == self.writer
                self.found.append((name, 0 if own else seq, at, text))

    def _look_patiently(self, state: Any) -> None:
        """Let them look at the state before the event that ends a long time without any."""
        for observer in self._patient:
            texts = observer.stood(state, self._folded)
            self.found += [(observer.name, self._seq, self._at, text) for text in texts]

    def settle(self, state: Any, seq: int, at: Micros) -> None:
        """Let the observers look at the state behind a step."""
        for observer in self.observers:
            self.found += [(observer.name, seq, at, text) for text in observer.settled(state)]

    def end(self, state: Any, seq: int, at: Micros) -> None:
        """Let the observers look at the last state."""
        for observer in self.observers:
            self.found += [(observer.name, seq, at, text) for text in observer.ended(state)]


class Listener:
    """Takes part in a pass over a log without looking at single events."""

    def came(self, entries: Sequence[Entry]) -> None:
        """Hear of what is about to be folded or held back."""

    def decided(self, seq: int, step: Step) -> None:
        """Hear of an own step, just folded."""

    def ended(self, fold: Fold[Any]) -> None:
        """Look at where the log ends, before what is held back there is folded."""


def broken(source: Source, names: Iterable[str], progress: Progress | None = None) -> Iterator[Violation]:
    """Yield what breaks the named invariants of `OBSERVERS`, in order; one fold per decider."""
    wanted = list(names)
    for kind in (Scheduler, SliceAggregator, VariantController):
        if any(OBSERVERS[name].decider is kind for name in wanted):
            yield from watch(source, kind(), wanted, Listener(), progress)


def watch(
    source: Source,
    decider: Decider[Any],
    names: Iterable[str],
    listener: Listener,
    progress: Progress | None = None,
) -> Iterator[Violation]:
    """Fold a log once, and yield what breaks those of the named invariants that are the decider's."""
    kinds = [OBSERVERS[name] for name in names]
    observers = [kind() for kind in kinds if isinstance(decider, kind.decider)]
    looks = next((o for o in observers if isinstance(o, StateObserver)), None)
    for violation in _watched(source, Watched(decider, observers), listener, progress):
        if looks is None or violation.invariant != StateObserver.name:
            yield violation
        else:
            yield from _first_bad(source, looks.good, violation)


def _watched(
    source: Source, watched: Watched, listener: Listener, progress: Progress | None
) -> Iterator[Violation]:
    fold: Fold[Any] = Fold(watched)  # type: ignore[arg-type]
    for entries in source.read(1, None, patterns_of(watched.inner)):
        listener.came(entries)
        for seq, step in fold.take_in(entries):
            listener.decided(seq, step)
            watched.settle(fold.state, seq, step.at)
            if watched.found:
                yield from _taken(watched, seq)
        if progress is not None and entries:
            progress(entries[-1].seq)
    listener.ended(fold)
    fold.release()
    watched.end(fold.state, source.end, fold.at)
    yield from _taken(watched, source.end)


def _taken(watched: Watched, own: int) -> Iterator[Violation]:
    """Yield what was found since the last step; *own*: the sequence of that step's commit."""
    yield from (Violation(name, seq or own, at, text) for name, seq, at, text in watched.found)
    watched.found.clear()


def _first_bad(source: Source, good: int, found: Violation) -> Iterator[Violation]:
    """Yield what is wrong behind the first bad step after so many good ones."""
    fold: Fold[SchedulerState] = Fold(Scheduler())
    number, seq, at = 0, found.seq, found.at
    texts: list[str] = []
    for entries in source.read(1, None, patterns_of(fold.decider)):
        for seq, step in fold.take_in(entries):
            number, at = number + 1, step.at
            if number > good and (texts := violations(fold.state)):
                yield from (Violation("state", seq, at, text) for text in texts)
                return
    fold.release()
    yield from (Violation("state", source.end, fold.at, text) for text in violations(fold.state))


__all__ = ["OBSERVERS", "Listener", "Observer", "Violation", "Watched", "broken", "watch"]
