"""Who has preempted whom, so that no preemptions go round in a circle (SC5, decision 0018).

Policies need not agree: one workload may be entitled to take from a second what a third is entitled to take
from it, or make room that somebody else gets first, and nothing would come to rest. So nobody preempts those

- who preempted it, directly or through others, or
- whom it has preempted twice already since it had quota last, in vain as it seems: what it waits for is
  kept for it (`pending_queues.Waiting`), so that this is a second line of defence.

What is remembered of the workloads of a queue is forgotten when an input changes what is asked of the queue:
a job is submitted to it or scaled, ends, shrinks, stops by itself or is edited. A change of configuration
ends all of it.

The variants of a job count as one. Derived from `Preempted`; only folds change it.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from sluice.events.base import WorkloadKey

if TYPE_CHECKING:
    from .model import Workload

IN_VAIN: Final = 2
"""So often one workload preempts another before it has quota: once more than should be needed."""

ANYWHERE: Final = ""
"""In place of a queue: whatever happens in any of them."""

Edge = tuple[WorkloadKey, WorkloadKey]
"""Preemptor and victim."""

Remembered = tuple[WorkloadKey, WorkloadKey, int, str, str]
"""Preemptor, victim, how often since the preemptor had quota last, and the cluster queues of both."""


def actor(workload: "Workload") -> WorkloadKey:
    """Return who it is that preempts, or is preempted: of a variant its parent."""
    return workload.record.parent or workload.key


class Circles:
    """All preemptions that are remembered. Falsy when there are none."""

    __slots__ = ("_by", "_of", "_queues", "_within", "planned", "refused", "stopped")

    def __init__(self) -> None:
        self._by: dict[WorkloadKey, dict[WorkloadKey, int]] = {}
        """Victim -> who preempted it, and how often since that one had quota last."""
        self._of: dict[WorkloadKey, dict[WorkloadKey, None]] = {}
        """Preemptor -> its victims."""
        self._queues: dict[Edge, tuple[str, str]] = {}
        self._within: dict[str, dict[Edge, None]] = {}
        """Cluster queue -> what is remembered of its workloads."""
        self.refused: dict[str, None] = {}
        """Cluster queues with a class that would have preempted somebody, but for what is remembered; some
        may have none any more. In no meaningful order."""
        self.planned: dict[WorkloadKey, dict[WorkloadKey, None]] = {}
        """Scratch of a cycle: victim -> who is to preempt it by what the cycle has decided so far."""
        self.stopped = False
        """Scratch of `preemption`: whether the latest search found nothing because of what is remembered."""

    def __bool__(self) -> bool:
        return bool(self._by)

    # Asking

    def spared_by(self, preemptor: WorkloadKey) -> Collection[WorkloadKey]:
        """Return whom *preemptor* must not preempt. For membership tests only."""
        found = self._preemptors(preemptor)
        for victim in self._of.get(preemptor, ()):
            if self._by[victim][preemptor] >= IN_VAIN:
                found[victim] = None
        return found.keys()

    def has_preempted(self, preemptor: WorkloadKey, victim: WorkloadKey) -> bool:
        """Has *preemptor* preempted *victim*, directly or through others?"""
        return preemptor in self._preemptors(victim)

    def _preemptors(self, victim: WorkloadKey) -> dict[WorkloadKey, None]:
        found: dict[WorkloadKey, None] = {}
        todo = [victim]
        while todo:
            key = todo.pop()
            for other in (*self._by.get(key, ()), *self.planned.get(key, ())):
                if other not in found:
                    found[other] = None
                    todo.append(other)
        return found

    def given_up(self, claimant: WorkloadKey) -> int:
        """Return how often it gave up a reservation with pending preemptions since it was admitted last."""
        return self.times(claimant, claimant)

    def times(self, preemptor: WorkloadKey, victim: WorkloadKey) -> int:
        """Return how often *preemptor* has preempted *victim* since it had quota last."""
        found = self._by.get(victim)
        return 0 if found is None else found.get(preemptor, 0)

    def closed_by(self, preemptor: WorkloadKey, victims: Iterable[WorkloadKey]) -> bool:
        """Would it close a circle with what was planned meanwhile if *preemptor* preempts *victims*?"""
        if not (self._by or self.planned):
            return False
        before = self._preemptors(preemptor)
        return any(victim in before for victim in victims)

    def plan(self, preemptor: WorkloadKey, victims: Iterable[WorkloadKey]) -> None:
        """Note that a cycle has decided that *preemptor* preempts *victims*."""
        for victim in victims:
            self.planned.setdefault(victim, {})[preemptor] = None

    # Folding

    def note(self, preemptor: "Workload", victim: "Workload") -> None:
        """One has preempted the other."""
        edge = (actor(preemptor), actor(victim))
        by = self._by.setdefault(edge[1], {})
        by[edge[0]] = by.get(edge[0], 0) + 1
        self._of.setdefault(edge[0], {})[edge[1]] = None
        self._place(edge, (preemptor.cluster_queue, victim.cluster_queue))

    def give_up(self, claimant: "Workload") -> None:
        """It gave its reservation up, as what it was to preempt for it cannot be preempted after all (AC6).

        Counts as in vain. Any input at all may have changed that.
        """
        key = actor(claimant)
        self._by.setdefault(key, {})[key] = self.given_up(key) + 1
        self._of.setdefault(key, {})[key] = None
        self._place((key, key), (claimant.cluster_queue, ANYWHERE))

    def served(self, preemptor: WorkloadKey) -> None:
        """It has quota, and nobody is to go for it: what it did for that was not in vain."""
        for victim in self._of.get(preemptor, ()):
            self._by[victim][preemptor] = 0

    def forget_queue(self, queue: str) -> bool:
        """Forget what is remembered of the queue's workloads; return whether there was anything."""
        edges = list({**self._within.get(queue, {}), **self._within.get(ANYWHERE, {})})
        self._forget(edges)
        return bool(edges)

    def forget(self, key: WorkloadKey) -> bool:
        """Forget what is remembered of one; return whether there was anything."""
        edges = dict.fromkeys((other, key) for other in self._by.get(key, ()))
        edges.update(dict.fromkeys((key, other) for other in self._of.get(key, ())))
        self._forget(edges)
        return bool(edges)

    def clear(self) -> bool:
        """Forget everything; return whether there was anything."""
        had = bool(self._by)
        for table in (self._by, self._of, self._queues, self._within):
            table.clear()
        return had

    def _forget(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            preemptor, victim = edge
            _take(self._by, victim, preemptor)
            _take(self._of, preemptor, victim)
            for queue in dict.fromkeys(self._queues.pop(edge)):
                _take(self._within, queue, edge)

    def _place(self, edge: Edge, queues: tuple[str, str]) -> None:
        before = self._queues.get(edge)
        if before is not None:
            for queue in dict.fromkeys(before):
                _take(self._within, queue, edge)
        self._queues[edge] = queues
        for queue in queues:
            self._within.setdefault(queue, {})[edge] = None

    # Snapshots

    def dump(self) -> Iterator[Remembered]:
        """Yield all that is remembered, in order."""
        for edge in sorted(self._queues):
            yield (*edge, self._by[edge[1]][edge[0]], *self._queues[edge])

    def load(self, remembered: Iterable[Remembered]) -> None:
        """Take over what `dump` has yielded."""
        for preemptor, victim, times, *queues in remembered:
            self._by.setdefault(victim, {})[preemptor] = times
            self._of.setdefault(preemptor, {})[victim] = None
            self._place((preemptor, victim), (queues[0], queues[1]))


def _take[K, V, T](table: dict[K, dict[V, T]], key: K, item: V) -> None:
    found = table[key]
    del found[item]
    if not found:
        del table[key]


__all__ = ["IN_VAIN", "Circles", "Edge", "Remembered", "actor"]
