"""Index of pending preemptions: reservations that wait for their targets to go (AC6).

A workload whose preemptions wait for its admission checks has its quota reserved beside that of its
victims. The usage of such a *preemptor* is charged, and so is theirs, so that the tree shows more than there
is until they have gone. `Pending`: the victims are not told yet, and may be chosen anew; `Issued`: they are
evicted. When the last of the victims of an issued one has given up its quota, the reservation is one like all
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
    """All preemptors of a world, by queue and by victim. Falsy when there are none, which is the rule."""

    __slots__ = ("_awaited", "by_queue", "due")

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[WorkloadKey, Workload]] = {}
        """Cluster queue -> its preemptors. In no meaningful order."""
        self._awaited: dict[WorkloadKey, dict[WorkloadKey, Workload]] = {}
        """Victim -> its preemptors."""
        self.due: dict[WorkloadKey, int] = {}
        """Those that may preempt, or may need nobody to go (any more) -> the cause (a sequence)."""

    def __bool__(self) -> bool:
        return bool(self.by_queue)

    def put(self, preemptor: Workload) -> None:
        """Add one whose `victims` are set."""
        self.by_queue.setdefault(preemptor.cluster_queue, {})[preemptor.key] = preemptor
        for victim in preemptor.victims:
            self._awaited.setdefault(victim, {})[preemptor.key] = preemptor

    def discard(self, preemptor: Workload) -> None:
        """Forget that it waits, if it does; its victims are nothing to it any more."""
        if not preemptor.preemptions:
            return
        preemptors = self.by_queue[preemptor.cluster_queue]
        del preemptors[preemptor.key]
        if not preemptors:
            del self.by_queue[preemptor.cluster_queue]
        for victim in preemptor.victims:
            self._drop(victim, preemptor)
        preemptor.preemptions = ""
        preemptor.preemptions_allowed = False
        preemptor.victims = {}
        self.due.pop(preemptor.key, None)

    def choose(self, preemptor: Workload, victims: dict[WorkloadKey, None]) -> None:
        """Replace the victims of one."""
        for victim in preemptor.victims:
            self._drop(victim, preemptor)
        preemptor.victims = victims
        for victim in victims:
            self._awaited.setdefault(victim, {})[preemptor.key] = preemptor

    def gone(self, victim: WorkloadKey) -> list[Workload]:
        """Note that *victim* has no quota any more; return who waited for it."""
        awaiting = self._awaited.pop(victim, None)
        if awaiting is None:
            return []
        for preemptor in awaiting.values():
            del preemptor.victims[victim]
        return list(awaiting.values())

    def preemptors_of(self, victim: WorkloadKey) -> list[Workload]:
        return list(self._awaited.get(victim, {}).values())

    def _drop(self, victim: WorkloadKey, preemptor: Workload) -> None:
        awaiting = self._awaited[victim]
        del awaiting[preemptor.key]
        if not awaiting:
            del self._awaited[victim]


__all__ = ["AFTER_CHECK", "ANYTIME", "ISSUED", "PENDING"]
