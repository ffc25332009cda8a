"""One workload in one scheduling cycle: what it would get, and what became of it."""

from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum
from typing import Final

from sluice.api.features import PRIORITIZE_PREEMPTOR_WORKLOADS, PRIORITY_SORTING_WITHIN_COHORT, enabled
from sluice.api.kueue import ConfigurationSpec
from sluice.core.flavors.assignment import Assignment, Mode, pending_flavors
from sluice.core.preemption.targets import IN_COHORT_RECLAIM_WHILE_BORROWING, Target
from sluice.core.queueing.pending_queue import EquivalenceClass, PendingQueue
from sluice.core.quota.tree import FlavorResource
from sluice.core.workload.pending_reasons import CIRCLE, PENDING_EVALUATION, WAITING_FOR_QUOTA
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.queue_order import queue_order_timestamp
from sluice.core.world.variants import SAME_FLAVORS, moves_nowhere, running_sibling
from sluice.core.world.workload import Workload
from sluice.events.base import PodSetAssignment

PREEMPTED_EPSILON_US: Final = 1000
"""A reclaimed borrower queues just behind its preemptor, which has the same time (a millisecond)."""


class Outcome(Enum):
    """What became of an entry."""

    NOMINATED = "nominated"
    """Not processed yet."""
    ADMITTED = "admitted"
    PROMISED = "promised"
    """It gets quota, and its targets are preempted when its checks allow it (AC6)."""
    PREEMPTING = "preempting"
    """It waits for its targets, issued now or before."""
    DISPLACED = "displaced"
    """It waits for its targets no more, as another one gets what they leave; the next cycle looks at it."""
    PARKED = "parked"
    """It cannot be admitted until something changes."""
    ASIDE = "aside"
    """The same, and not even a StrictFIFO queue waits for it."""
    GATED = "gated"
    """It would preempt, but for a closed gate."""
    SKIPPED = "skipped"
    """Another entry of this cycle was in its way; the next cycle looks at it again."""
    SCANNING = "scanning"
    """Not all flavors were tried; the next cycle goes on."""


class Proposal:
    """What an entry would get as things are: flavors, and whom it would have to preempt."""

    __slots__ = (
        "assignment",
        "circling",
        "deferred",
        "mode",
        "overdrawn",
        "pod_sets",
        "promised",
        "targets",
        "usage",
    )

    def __init__(
        self,
        assignment: Assignment,
        targets: Sequence[Target] = (),
        pod_sets: tuple[PodSetAssignment, ...] = (),
    ) -> None:
        self.assignment = assignment
        self.mode = assignment.mode
        self.usage = assignment.usage
        self.targets = targets
        self.pod_sets = pod_sets
        """With a fitting assignment: what QuotaReserved records."""
        self.deferred = False
        """Targets are to be looked for when it is processed."""
        self.circling = False
        """It would have targets, but preempting them would go round in a circle (`World.circles`)."""
        self.overdrawn = False
        """It takes, or may take, what is promised to others: judged with that in use twice (`overcommit`)."""

        self.promised = False
        """It is no more than was kept for it. If its queue borrows then, those do that came later (AX6)."""

    @property
    def preempted(self) -> list[Workload]:
        """Whom it would preempt."""
        return [target.workload for target in self.targets]

    def is_possible(self) -> bool:
        """Could it be admitted, now or after preemption?"""
        return self.mode is Mode.FIT or self.deferred or (self.mode is Mode.PREEMPT and bool(self.targets))

    def needed(self) -> dict[FlavorResource, int]:
        """What it would use in all, also of what a sibling uses for it already (CA10)."""
        whole = self.assignment.whole
        return self.usage if whole is None else whole

    def has_enough(self, promised: Mapping[FlavorResource, int]) -> bool:
        """Would it use as much of every resource as it was promised, in whatever flavors?"""
        lacking: dict[str, int] = {}
        for (_, resource), amount in promised.items():
            lacking[resource] = lacking.get(resource, 0) + amount
        for (_, resource), amount in self.needed().items():
            lacking[resource] = lacking.get(resource, 0) - amount
        return all(amount <= 0 for amount in lacking.values())


class _NotNominated(Proposal):
    """Of an entry that was not nominated: nothing. All such entries share it, so it never changes."""

    __slots__ = ("_is_made",)

    def __init__(self) -> None:
        nothing = Assignment((), {})
        nothing.mode = Mode.NO_FIT
        super().__init__(nothing)
        self._is_made = True

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, "_is_made"):
            raise AttributeError(f"{name}: the entry was not nominated")
        super().__setattr__(name, value)


_NONE: Final = _NotNominated()


class Entry:
    """A head that takes part in a cycle."""

    __slots__ = (
        "barred",
        "beside",
        "cq",
        "displaced_by",
        "message",
        "migrates",
        "outcome",
        "peers",
        "proposal",
        "queue",
        "reason",
        "reserves",
        "victims",
        "workload",
    )

    def __init__(self, workload: Workload, queue: PendingQueue, cq: ClusterQueue) -> None:
        self.workload = workload
        self.queue = queue
        self.cq = cq
        peers = workload.peers
        assert peers is not None, f"{workload.key} does not queue"
        self.peers: EquivalenceClass = peers
        self.proposal: Proposal = _NONE
        self.victims: Sequence[Workload] = ()
        """With PREEMPTING: all that it waits for."""
        self.displaced_by: Workload | None = None
        """With DISPLACED: who gets it."""
        self.barred = False
        """A sibling bars it, so that the verdict holds for as long as it does (CA10, CA11)."""
        self.beside = False
        """With ADMITTED: it gets quota, but waits for its admitted sibling to go (CA10)."""
        self.migrates: Workload | None = None
        """The admitted sibling that is to make room for the variant now."""
        self.outcome = Outcome.NOMINATED
        self.reason = ""
        self.message = ""
        self.reserves = peers.reserves and queue.tree is not None and not queue.tree.dirty
        """Its quota is withheld. Until something is freed it stays so: others for whom quota is withheld may
        have no part in this cycle, so that it seems to lack nothing. Were its own withheld no more, all would
        be woken, and it would lack it again."""

    def finish(self, outcome: Outcome, reason: str = "", message: str = "") -> None:
        self.outcome = outcome
        self.reason = reason
        self.message = message

    def finish_barred(self, outcome: Outcome, why: str) -> None:
        """As `finish`, of a variant that a sibling bars."""
        self.finish(outcome, PENDING_EVALUATION, why)
        self.barred = True

    def moves_nowhere(self, world: World) -> bool:
        """Would the variant only stop its job, to run on what that has already (CA10)?"""
        running = running_sibling(world, self.workload)
        pod_sets = self.proposal.assignment.pod_set_assignments()
        return running is not None and moves_nowhere(running, pod_sets)

    def finish_where_it_runs(self) -> None:
        """As `finish`, of a variant that `moves_nowhere`."""
        self.finish(Outcome.PARKED, WAITING_FOR_QUOTA, SAME_FLAVORS)

    def set_aside(self, reason: str) -> None:
        """It cannot be admitted as things are; the search for a flavor goes on if there are more to try."""
        planned, tree = self.proposal, self.queue.tree
        # A blocker that reserves takes part in every cycle, but need not search again each time.
        over = tree is not None and not tree.dirty and tree.is_searched(self.peers)
        more = pending_flavors(planned.assignment.scan) and not over
        message = planned.assignment.message
        message = f"{message}{CIRCLE}" if planned.circling else message
        self.finish(Outcome.SCANNING if more else Outcome.PARKED, reason, message)


class Part(IntEnum):
    """What a family had of a cycle so far: the most that has become of one of its variants.

    So of a slice and the one that is to replace it.
    """

    BLOCKED = 1
    """It was found to be blocked on its gates; whether it goes first is known when that is told (CA11)."""
    LEAVES = 2
    """It is to go: what its siblings may do, and are charged for, follows from it."""
    GETS = 3
    """It has got something, as above; and what they share stays with it when they go (CA10). How much that
    is, is charged when it is recorded."""


Order = tuple[int | str, ...]


class Ordering:
    """The order of entries within a cycle, without fair sharing (SC1); `by_rank` unless it is changed.

    Under nominal quota before borrowing, by height; higher priority; earlier; uid. Two gates change it:
    PrioritySortingWithinCohort (on) and PrioritizePreemptorWorkloads (off).
    """

    __slots__ = ("_config", "_preemptors_first", "by_rank")

    def __init__(self, config: ConfigurationSpec) -> None:
        gates = config.feature_gates
        self._config = config
        self.by_rank = enabled(gates, PRIORITY_SORTING_WITHIN_COHORT)
        """Among those that borrow alike, the order is that of the queues."""
        self._preemptors_first = enabled(gates, PRIORITIZE_PREEMPTOR_WORKLOADS)

    def key(self, workload: Workload, borrowing: int, *, is_preemptor: bool = False) -> Order:
        """`is_preemptor`: it has waited for victims."""
        first = 0 if is_preemptor and self._preemptors_first else 1
        return (first, borrowing, *self.tie_break(workload))

    def tie_break(self, workload: Workload) -> Order:
        if self.by_rank:
            return workload.rank
        time = queue_order_timestamp(workload, self._config)
        if workload.preempted_rule == IN_COHORT_RECLAIM_WHILE_BORROWING and workload.preempted_at is not None:
            time = workload.preempted_at + PREEMPTED_EPSILON_US
        return (time, workload.uid)


__all__ = ["Entry", "Order"]
