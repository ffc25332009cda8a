"""Who waits with a reservation for whom to go: the index of pending preemptions (AC6).

A workload whose preemptions wait for its admission checks has its quota reserved beside that of its
victims. It is a *claimant*: its usage is charged, and so is theirs, so that the tree shows more than there is
until they have gone. `Pending`: the victims are not told yet, and may be chosen anew; `Issued`: they are
evicted. When the last of an issued claim's victims has given up its quota, the reservation is one like all
others.

Derived from the workloads' own fields, never dumped; changed only by folds.
"""

from typing import Final

from sluice.events.base import WorkloadKey

from .workload import Workload

ANYTIME: Final = "Anytime"
AFTER_CHECK: Final = "AfterCheckPassedOrOnDemand"

PENDING: Final = "Pending"
ISSUED: Final = "Issued"


class PendingPreemptions:
    """All claimants of a world, by queue and by victim. Falsy when there are none, which is the rule."""

    __slots__ = ("_awaited", "by_queue", "due")

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[WorkloadKey, Workload]] = {}
        """Cluster queue -> its claimants. In no meaningful order."""
        self._awaited: dict[WorkloadKey, dict[WorkloadKey, Workload]] = {}
        """Victim -> its claimants."""
        self.due: dict[WorkloadKey, int] = {}
        """Claimants that may preempt, or may need nobody to go (any more) -> the cause (a sequence)."""

    def __bool__(self) -> bool:
        return bool(self.by_queue)

    def put(self, claimant: Workload) -> None:
        """Add a claimant, whose `victims` are set."""
        self.by_queue.setdefault(claimant.cluster_queue, {})[claimant.key] = claimant
        for victim in claimant.victims:
            self._awaited.setdefault(victim, {})[claimant.key] = claimant

    def discard(self, claimant: Workload) -> None:
        """Forget the claim, if there is one; its victims are nothing to it any more."""
        if not claimant.preemptions:
            return
        claimants = self.by_queue[claimant.cluster_queue]
        del claimants[claimant.key]
        if not claimants:
            del self.by_queue[claimant.cluster_queue]
        for victim in claimant.victims:
            self._drop(victim, claimant)
        claimant.preemptions = ""
        claimant.preemptions_allowed = False
        claimant.victims = {}
        self.due.pop(claimant.key, None)

    def choose(self, claimant: Workload, victims: dict[WorkloadKey, None]) -> None:
        """Replace the victims of a claim."""
        for victim in claimant.victims:
            self._drop(victim, claimant)
        claimant.victims = victims
        for victim in victims:
            self._awaited.setdefault(victim, {})[claimant.key] = claimant

    def gone(self, victim: WorkloadKey) -> list[Workload]:
        """Note that *victim* has no quota any more; return who waited for it."""
        awaiting = self._awaited.pop(victim, None)
        if awaiting is None:
            return []
        for claimant in awaiting.values():
            del claimant.victims[victim]
        return list(awaiting.values())

    def claimants_of(self, victim: WorkloadKey) -> list[Workload]:
        return list(self._awaited.get(victim, {}).values())

    def _drop(self, victim: WorkloadKey, claimant: Workload) -> None:
        awaiting = self._awaited[victim]
        del awaiting[claimant.key]
        if not awaiting:
            del self._awaited[victim]


__all__ = ["AFTER_CHECK", "ANYTIME", "ISSUED", "PENDING"]
