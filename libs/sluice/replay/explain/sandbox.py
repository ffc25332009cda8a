"""Trying things out on a copy of a scheduler's state, by really deciding. Nothing is written anywhere."""

import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from sluice.api import kueue
from sluice.api.meta import ObjectMeta
from sluice.api.quantity import format_value, resource_value
from sluice.core.decision_loop import MOST_STEPS, step
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.model import ClusterQueue
from sluice.core.world.variants import siblings
from sluice.events.base import Event, Micros
from sluice.events.config import ObjectApplied
from sluice.events.scheduler import Admitted, Evicted, PendingReasonChanged, Preempted, QuotaReserved
from sluice.events.slices import WorkloadStopped
from sluice.log.runtime import process_pool

from .stopping import Leavers


@dataclass
class Outcome:
    """What followed from the change. `reserved` is the workload's, if it got quota."""

    reserved: QuotaReserved | None = None
    admitted: bool = False
    preempted: list[Preempted] = field(default_factory=list)
    """By the workload itself."""
    others: list[str] = field(default_factory=list)
    """Other workloads that got quota before."""
    reason: str = ""
    message: str = ""
    settled: bool = True
    sibling: str = ""
    """Of a variant: the sibling that was admitted before it, by which its job runs."""
    patient: bool = False
    """Nothing more followed before those had stopped who leave already."""
    variant: str = ""
    """Of a job that races: the variant whose reservation it is."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Of a job that races: variant -> why it has no quota, the most preferred first."""
    reserving: dict[str, QuotaReserved] = field(default_factory=dict)
    """Of a job that races: variant -> its reservation that waits for checks."""

    @property
    def preempting(self) -> str:
        """Say whom it would preempt, to be put behind what brings that about; "" for nobody."""
        names = [event.workload for event in self.preempted]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return f" (it would preempt {', '.join(names[:SHOWN])}{more})" if names else ""


SHOWN = 3
FEW = 200
"""Workloads up to which loading a copy of a state is quicker than a child process."""


class Sandbox:
    """Copies of one state, each to be changed and decided on.

    Of a large state a copy is a child process, which has all memory at once.
    """

    def __init__(self, state: SchedulerState, seq: int, at: Micros, *, forks: bool | None = None) -> None:
        self.scheduler = Scheduler()
        self.seq, self.at = seq, at
        self.trials = 0
        self.state = state
        """What all copies are made of."""
        self.facts = state
        """What is so; `state` may be what would come of a change."""
        self._given: tuple[Event, ...] = ()
        self.instead: list[tuple[str, str]] = []
        """Changes that admit no variant that was asked for, but a sibling of it, which comes first: which."""
        self.leavers: Leavers | None = None
        """Who stops when nothing more follows: those who leave already. None: nobody does."""
        self._forks = len(state.world.workloads) > FEW and process_pool.AVAILABLE if forks is None else forks
        self._data = b"" if self._forks else self.scheduler.dump(state)

    def attempt(self, events: Iterable[Event], key: str) -> Outcome:
        """Fold *events* into a copy, then decide until *key* has quota or nothing more follows.

        Who is evicted stops at once, so what waits for preempted workloads gets its turn.
        """
        self.trials += 1
        if self._forks:
            return process_pool.in_copy(lambda: self._attempt(self.state, events, key))
        return self._attempt(self.scheduler.load(self._data), events, key)

    def given(self, events: Iterable[Event]) -> "Sandbox":
        """Return one that tries everything together with *events*: nothing is decided between."""
        found = copy.copy(self)
        found._given, found.trials = (*self._given, *events), 0
        return found

    def patient(self, leavers: Leavers) -> "Sandbox":
        """Return one in which *leavers* have stopped when nothing more follows."""
        found = copy.copy(self)
        found.leavers, found.trials = leavers if leavers.holders else None, 0
        return found

    def after(self, events: Iterable[Event]) -> "tuple[SchedulerState, Sandbox]":
        """Return what is there when nothing more follows from *events*, and the sandbox of that."""
        state = self.scheduler.load(self._data or self.scheduler.dump(self.state))
        self._attempt(state, events, "")
        later = Sandbox(state, self.seq, self.at)
        later.facts = self.facts
        return state, later

    def apart[T](self, searches: Sequence[Callable[[], T]]) -> list[T]:
        """Return what searches come to that do not depend on each other; at once where that is quicker."""
        if not self._forks:
            return [search() for search in searches]

        def counted(search: Callable[[], T]) -> tuple[T, int]:
            before = self.trials
            return search(), self.trials - before

        results = process_pool.side_by_side([lambda _, s=search: counted(s) for search in searches])  # type: ignore[misc]
        self.trials += sum(trials for _, trials in results)
        return [result for result, _ in results]

    def follow(self, events: Iterable[Event]) -> list[Event]:
        """Fold *events* into a copy, and return all that is decided until nothing more follows.

        Who is evicted stops at once.
        """
        if self._forks:
            return process_pool.in_copy(lambda: self._follow(self.state, events))
        return self._follow(self.scheduler.load(self._data), events)

    def _follow(self, state: SchedulerState, events: Iterable[Event]) -> list[Event]:
        seq, found = self.seq + 1, list[Event]()
        for event in (*self._given, *events):
            self.scheduler.apply(state, event, seq, self.at)
        for _ in range(MOST_STEPS):
            decided = step(self.scheduler, state, seq, self.at)
            if not decided:
                break
            found += decided
            for event in _noted(decided, seq, "", (), Outcome()):
                seq += 1
                self.scheduler.apply(state, event, seq, self.at)
        return found

    def _attempt(self, state: SchedulerState, events: Iterable[Event], key: str) -> Outcome:
        scheduler, seq = self.scheduler, self.seq + 1
        for event in (*self._given, *events):
            scheduler.apply(state, event, seq, self.at)
        asked = state.world.workloads.get(key)  # type: ignore[call-overload]
        family = frozenset(other.key for other in siblings(state.world, asked)) if asked is not None else ()
        found, leaving = Outcome(), [] if self.leavers is None else self.leavers.events()
        for _ in range(MOST_STEPS):
            decided = step(scheduler, state, seq, self.at)
            if not decided and not leaving:
                break
            stopped = _noted(decided, seq, key, family, found)
            if found.reserved is not None or found.sibling:
                return found
            if not decided:
                stopped, leaving, found.patient = leaving, [], True
            for event in stopped:
                seq += 1
                scheduler.apply(state, event, seq, self.at)
        else:
            found.settled = False
        workload = state.world.workloads.get(key)  # type: ignore[call-overload]
        if workload is not None and workload.peers is not None:
            found.reason, found.message = workload.peers.reason, workload.peers.message
        return found


def _noted(
    decided: Sequence[Event], seq: int, key: str, family: Collection[str], found: Outcome
) -> list[Event]:
    """Note in *found* what a step says of *key* and its *family*; return what executors answer to it."""
    stopped: list[Event] = []
    for event in decided:
        match event:
            case QuotaReserved(workload=workload):
                if workload == key:
                    found.reserved = event
                else:
                    found.others.append(workload)
            case Admitted(workload=workload) if workload == key:
                found.admitted = True
            case Admitted(workload=workload) if workload in family and found.reserved is None:
                found.sibling = workload
            case Preempted(preemptor=preemptor) if preemptor == key:
                found.preempted.append(event)
            case Evicted(workload=workload):
                stopped.append(WorkloadStopped(cause=seq, workload=workload))
            case PendingReasonChanged(workloads=keys) if key in keys:
                found.reason, found.message = event.reason, event.message
            case _:
                pass
    return stopped


def with_quota(cq: ClusterQueue, more: dict[tuple[str, str], int]) -> ObjectApplied:
    """Return the change that adds to the nominal quota of a cluster queue, in base units."""
    groups = [
        msgspec.structs.replace(
            group,
            flavors=[
                msgspec.structs.replace(
                    flavor,
                    resources=[
                        _more(quota, more.get((flavor.name, quota.name), 0)) for quota in flavor.resources
                    ],
                )
                for flavor in group.flavors
            ],
        )
        for group in cq.spec.resource_groups
    ]
    return applied_queue(cq, msgspec.structs.replace(cq.spec, resource_groups=groups))


def applied_queue(cq: ClusterQueue, spec: kueue.ClusterQueueSpec) -> ObjectApplied:
    """Return that the queue is given another spec; one that is being deleted goes on being deleted."""
    name = cq.name
    deleted = "1970-01-01T00:00:00Z" if cq.terminating else None
    manifest = kueue.ClusterQueue(metadata=ObjectMeta(name=name, deletion_timestamp=deleted), spec=spec)
    return ObjectApplied(
        cause=0, kind="ClusterQueue", name=name, object=msgspec.Raw(msgspec.json.encode(manifest))
    )


def _more(quota: kueue.ResourceQuota, amount: int) -> kueue.ResourceQuota:
    if not amount:
        return quota
    nominal = resource_value(quota.name, quota.nominal_quota) + amount
    return msgspec.structs.replace(quota, nominal_quota=format_value(quota.name, nominal))
