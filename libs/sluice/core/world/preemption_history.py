"""History of preemptions, so that none go round in a circle (SC5, decision 0018).

Policies need not agree: one workload may be entitled to take from a second what a third is entitled to take
from it, or make room that somebody else gets first, and nothing would come to rest. So nobody preempts those

- who preempted it, directly or through others, or
- whom it has preempted twice already since it had quota last, in vain as it seems: what it waits for is
  kept for it (`pending_queue.Preemptor`), so that this is a second line of defence.

What is remembered of the workloads of a queue is forgotten when an input changes what is asked of the queue:
a job is submitted to it or scaled, ends, shrinks, stops by itself or is edited. A change of configuration
ends all of it.

The variants of a job count as one. Derived from `Preempted`; only folds change it.
"""

from collections.abc import Container, Iterable, Iterator
from typing import Final, NamedTuple

from sluice.events.base import WorkloadKey

from .workload import Workload

IN_VAIN: Final = 2
"""So often one workload preempts another before it has quota: once more than should be needed."""

ANYWHERE: Final = ""
"""In place of a queue: whatever happens in any of them."""

PRUNE: Final = 16
"""With so many that preempted one workload, those that are forgotten are looked for."""

Remembered = tuple[WorkloadKey, WorkloadKey, int, str, str]
"""Preemptor, victim, how often since the preemptor had quota last, and the cluster queues of both.

Who has given its reservation up is both, and its second queue is `ANYWHERE`."""


def actor(workload: Workload) -> WorkloadKey:
    """Return who it is that preempts, or is preempted: of a variant its parent."""
    return workload.record.parent or workload.key


class _Edge(NamedTuple):
    """One has preempted another; holds for as long as neither queue has come to another epoch."""

    times: int
    try_: int
    """Which of the preemptor's tries to get quota `times` counts."""
    queue: str
    epoch: int
    victims_queue: str
    victims_epoch: int


class PreemptionHistory:
    """All preemptions that are remembered. Falsy when there are none.

    What inputs end is not looked for, as they come all the time: each begins another epoch of its queue.
    """

    __slots__ = (
        "_by",
        "_epochs",
        "_gave_up",
        "_inputs",
        "_tries",
        "planned",
        "refused",
        "stopped",
        "trying",
    )

    def __init__(self) -> None:
        self._by: dict[WorkloadKey, dict[WorkloadKey, _Edge]] = {}
        """Victim -> who preempted it."""
        self._tries: dict[WorkloadKey, int] = {}
        """Who has preempted, or given up -> how often it has got quota since it did so first."""
        self.trying: dict[WorkloadKey, None] = {}
        """Those of them that have preempted somebody, or given up, since they had quota last."""
        self._epochs: dict[str, int] = {}
        """Cluster queue -> how many inputs have changed what is asked of it."""
        self._inputs = 0
        """In all queues."""
        self._gave_up: dict[WorkloadKey, tuple[int, str, int]] = {}
        """Claimant -> how often it gave its reservation up, its queue, and after how many inputs."""
        self.refused: dict[str, None] = {}
        """Cluster queues with a class that would have preempted somebody, but for what is remembered; some
        may have none any more. In no meaningful order."""
        self.planned: dict[WorkloadKey, dict[WorkloadKey, None]] = {}
        """Scratch of a cycle: victim -> who is to preempt it by what the cycle has decided so far."""
        self.stopped = False
        """Scratch of `preemption`: whether any search, since this was reset, found nothing because of what is
        remembered. One question may take several: by flavor, and by count."""

    def __bool__(self) -> bool:
        return bool(self._by or self._gave_up)

    # Asking

    def spared_by(self, preemptor: WorkloadKey) -> Container[WorkloadKey]:
        """Return whom *preemptor* must not preempt; () for nobody."""
        found = self._preemptors(preemptor) if preemptor in self._by or preemptor in self.planned else {}
        return _Spared(self, preemptor, found) if preemptor in self.trying else found

    def has_preempted(self, preemptor: WorkloadKey, victim: WorkloadKey) -> bool:
        """Has *preemptor* preempted *victim*, directly or through others?"""
        return preemptor in self._preemptors(victim)

    def _preemptors(self, victim: WorkloadKey) -> dict[WorkloadKey, None]:
        found: dict[WorkloadKey, None] = {}
        todo = [victim]
        while todo:
            key = todo.pop()
            before = [p for p, edge in self._by[key].items() if self._holds(edge)] if key in self._by else []
            for other in (*before, *self.planned.get(key, ())):
                if other not in found:
                    found[other] = None
                    todo.append(other)
        return found

    def given_up(self, preemptor: WorkloadKey) -> int:
        """Return how often it gave up a reservation with pending preemptions since it was admitted last."""
        times, _, inputs = self._gave_up.get(preemptor, (0, "", 0))
        return times if inputs == self._inputs else 0

    def times(self, preemptor: WorkloadKey, victim: WorkloadKey) -> int:
        """Return how often *preemptor* has preempted *victim* since it had quota last."""
        edge = self._by[victim].get(preemptor) if victim in self._by else None
        if edge is None or edge.try_ != self._tries.get(preemptor, 0) or not self._holds(edge):
            return 0
        return edge.times

    def closed_by(self, preemptor: WorkloadKey, victims: Iterable[WorkloadKey]) -> bool:
        """Would it close a circle with what was planned meanwhile if *preemptor* preempts *victims*?"""
        if preemptor not in self._by and preemptor not in self.planned:
            return False
        before = self._preemptors(preemptor)
        return any(victim in before for victim in victims)

    def plan(self, preemptor: WorkloadKey, victims: Iterable[WorkloadKey]) -> None:
        """Note that a cycle has decided that *preemptor* preempts *victims*."""
        for victim in victims:
            self.planned.setdefault(victim, {})[preemptor] = None

    def _holds(self, edge: _Edge) -> bool:
        epochs = self._epochs
        return (
            epochs.get(edge.queue, 0) == edge.epoch
            and epochs.get(edge.victims_queue, 0) == edge.victims_epoch
        )

    # Folding

    def note(self, preemptor: Workload, victim: Workload, *, again: bool = True) -> None:
        """One has preempted the other. Not *again*: beside a sibling of the victim, by the same decision."""
        key, other = actor(preemptor), actor(victim)
        times = self.times(key, other)
        times = times + 1 if again else max(times, 1)
        self._put(key, other, times, preemptor.cluster_queue, victim.cluster_queue)

    def _put(self, preemptor: WorkloadKey, victim: WorkloadKey, times: int, queue: str, other: str) -> None:
        epochs = self._epochs
        by = self._by.get(victim)
        if by is None:
            by = self._by[victim] = {}
        elif len(by) >= PRUNE:
            by = self._by[victim] = {key: edge for key, edge in by.items() if self._holds(edge)}
        try_ = self._tries.setdefault(preemptor, 0)
        if times:
            self.trying[preemptor] = None
        by[preemptor] = _Edge(times, try_, queue, epochs.get(queue, 0), other, epochs.get(other, 0))

    def give_up(self, preemptor: Workload) -> None:
        """It gave its reservation up, as what it was to preempt for it cannot be preempted after all (AC6).

        Counts as in vain. Any input at all may have changed that.
        """
        key = actor(preemptor)
        self._gave_up[key] = (self.given_up(key) + 1, preemptor.cluster_queue, self._inputs)
        self._tries.setdefault(key, 0)
        self.trying[key] = None

    def served(self, preemptor: WorkloadKey) -> None:
        """It has quota, and nobody is to go for it: what it did for that was not in vain."""
        if preemptor in self.trying:
            del self.trying[preemptor]
            self._tries[preemptor] = self._tries.get(preemptor, 0) + 1
            self._gave_up.pop(preemptor, None)

    def concern(self, key: WorkloadKey, queue: str | None = None) -> bool:
        """Is anything remembered of *key*, or that an input to *queue* ends? Looks at everything."""
        return any(
            key in edge[:2] or queue in edge[3:] or (queue is not None and edge[4] == ANYWHERE)
            for edge in self.dump()
        )

    def changed(self, queue: str, by: WorkloadKey | None = None) -> None:
        """An input has changed what is asked of the queue: forget what is remembered of its workloads.

        `by`: what the input is about, to be forgotten as well. Without anything remembered it does nothing.
        """
        if not (self._by or self._gave_up):
            return
        self._inputs += 1
        epochs = self._epochs
        epochs[queue] = epochs.get(queue, 0) + 1
        if by in self._by or by in self._tries:
            self.forget(by)

    def forget(self, key: WorkloadKey) -> None:
        """Forget what was done to one that is over or was edited, and how often it did what."""
        self._by.pop(key, None)
        if self._tries.pop(key, None) is not None:
            self.trying.pop(key, None)
            self._gave_up.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        for table in (self._by, self._tries, self.trying, self._epochs, self._gave_up):
            table.clear()

    # Snapshots

    def dump(self) -> Iterator[Remembered]:
        """Yield all that is remembered, in order."""
        found: list[Remembered] = [
            (key, victim, self.times(key, victim), edge.queue, edge.victims_queue)
            for victim, by in self._by.items()
            for key, edge in by.items()
            if self._holds(edge)
        ]
        gave_up = ((key, self.given_up(key)) for key in self._gave_up)
        found += [(key, key, n, self._gave_up[key][1], ANYWHERE) for key, n in gave_up if n]
        yield from sorted(found)

    def load(self, remembered: Iterable[Remembered]) -> None:
        """Take over what `dump` has yielded."""
        for preemptor, victim, times, queue, other in remembered:
            if preemptor == victim:
                self._gave_up[preemptor] = (times, queue, self._inputs)
                self._tries.setdefault(preemptor, 0)
                self.trying[preemptor] = None
            else:
                self._put(preemptor, victim, times, queue, other)


class _Spared:
    """Those whom one must not preempt, of which some are those that it has preempted in vain."""

    __slots__ = ("_before", "_circles", "_preemptor")

    def __init__(
        self, circles: PreemptionHistory, preemptor: WorkloadKey, before: Container[WorkloadKey]
    ) -> None:
        self._circles = circles
        self._preemptor = preemptor
        self._before = before

    def __contains__(self, key: object) -> bool:
        return key in self._before or self._circles.times(self._preemptor, key) >= IN_VAIN  # type: ignore[arg-type]


__all__ = ["IN_VAIN", "Remembered", "actor"]
