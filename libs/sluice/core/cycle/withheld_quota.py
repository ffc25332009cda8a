"""Quota that a cycle withholds: it is not lent to others, as its queue could not be sure to get it back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sluice.api.kueue import ClusterQueuePreemption
from sluice.core.quota.tree import FlavorResource
from sluice.core.world.model import ClusterQueue
from sluice.core.world.reservations import Trial

from .entry import Entry

ALWAYS_RECLAIMS: Final = "Any"


class WithheldQuota:
    """What is withheld for the entries of one cycle, one of each queue; charged to its trial."""

    __slots__ = ("_lasting", "_trial", "by_queue", "passes")

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._lasting: set[str] = set()
        """Queues for whose blocker it is withheld in the next cycle, too: those with StrictFIFO."""
        self.passes = False
        """Something was withheld in this cycle only: what it kept others from, they can have in the next."""
        self.by_queue: dict[str, dict[FlavorResource, int]] = {}
        """Cluster queue -> what is withheld for it."""

    def withhold(self, entry: Entry) -> None:
        """Keep quota from being lent to others that the queue could not get back when it needs it."""
        if always_reclaims(entry.cq.spec.preemption):
            return
        entry.reserves = entry.queue.strict
        if entry.reserves:
            self._lasting.add(entry.cq.name)
        else:
            self.passes = True
        node = entry.cq.node
        withheld: dict[FlavorResource, int] = {}
        for fr, amount in entry.proposal.usage.items():
            quota = node.quotas.get(fr)
            nominal = 0 if quota is None else quota.nominal
            if entry.proposal.assignment.borrowing:
                limit = None if quota is None else quota.borrowing_limit
                left = amount if limit is None else nominal + limit - node.used(fr)
                # After a cut the queue may use more than its limit; that is nothing for others to take.
                withheld[fr] = max(0, min(amount, left))
            else:
                withheld[fr] = max(0, min(amount, nominal - node.used(fr)))
        self._trial.charge(node, withheld)
        self.by_queue[entry.cq.name] = withheld

    @contextmanager
    def lifted(self, cq: ClusterQueue) -> Iterator[None]:
        """Withhold nothing for the queue meanwhile: to itself it is there."""
        withheld = self.by_queue.get(cq.name)
        self.release(cq)
        yield
        if withheld is not None:
            self._trial.charge(cq.node, withheld)
            self.by_queue[cq.name] = withheld

    def release_passing(self) -> None:
        """Give free what is not withheld in the next cycle."""
        for name in self.by_queue.keys() - self._lasting:
            self.release(self._trial.world.cluster_queues[name])

    def release(self, cq: ClusterQueue) -> None:
        """What is withheld for one class of a queue does not keep the next one out."""
        withheld = self.by_queue.pop(cq.name, None)
        if withheld is not None:
            self._trial.discharge(cq.node, withheld)

    def release_all(self) -> None:
        """Nothing is withheld for those that cannot be served any more, as the cycle is over."""
        for name in list(self.by_queue):
            self.release(self._trial.world.cluster_queues[name])


def always_reclaims(policy: ClusterQueuePreemption | None) -> bool:
    """Can the queue be sure to get back what it lends?"""
    return policy is not None and policy.reclaim_within_cohort == ALWAYS_RECLAIMS


__all__ = ["ALWAYS_RECLAIMS", "always_reclaims"]
