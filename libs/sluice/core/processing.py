"""What becomes of one entry of a cycle, given what the entries before it got (SC1, phase 4)."""

from collections.abc import Sequence

from sluice.api.features import enabled
from sluice.api.kueue import ClusterQueuePreemption, ConfigurationSpec
from sluice.events.base import PodSetAssignment

from . import entry as texts
from .assignment import Mode, pending_flavors
from .check_states import relevant_checks
from .entry import Entry, Outcome
from .families import Standing, standing
from .model import ClusterQueue, Workload, World
from .nomination import propose
from .preemption import get_targets
from .quota import FlavorResource, Node
from .reservations import Trial, without

ALWAYS_RECLAIMS = "Any"


class Processing:
    """Decides on entries one after the other; `trial` must be entered meanwhile.

    Entries are judged as if the victims of earlier ones had gone already, and what those wait for were in
    use. Victims are taken out of the tree for that and put back when somebody asks for what is free now.
    """

    __slots__ = (
        "_admitted",
        "_blocked",
        "_claims",
        "_config",
        "_hidden",
        "_preempted",
        "_recompute_overlaps",
        "_reserved",
        "_world",
        "recomputations",
        "skipped_preemptions",
        "trial",
    )

    def __init__(self, world: World, *, blocked: bool) -> None:
        self._world = world
        self._config = world.config
        self._recompute_overlaps = enabled(
            world.config.feature_gates, "RecomputeAssignmentUponPreemptionTargetsOverlap"
        )
        self._blocked = blocked
        self._preempted: dict[str, Workload] = {}
        """Victims of entries of this cycle."""
        self._hidden: list[Workload] = []
        """Those of them that are out of the tree now."""
        self._claims: list[tuple[Node, dict[FlavorResource, int]]] = []
        """What entries of this cycle that wait for victims have been charged."""
        self._admitted = False
        self._reserved: dict[str, dict[FlavorResource, int]] = {}
        self.trial = Trial(world)
        self.skipped_preemptions: dict[str, int] = {}
        self.recomputations: dict[str, str] = {}

    def show_victims(self) -> None:
        """Put the victims of this cycle back into the tree: quota that they hold is not free yet."""
        for victim in self._hidden:
            self.trial.restore(victim)
        self._hidden.clear()

    def _hide_victims(self) -> None:
        if len(self._hidden) == len(self._preempted):
            return
        for key, victim in self._preempted.items():
            if key not in self._world.absent:
                self.trial.remove(victim)
                self._hidden.append(victim)

    def process(self, entry: Entry) -> None:
        """Decide on *entry* against the tree as the entries before it have left it."""
        if entry.waiting is not None:
            self._keep_waiting(entry)
            return
        if entry.deferred:
            if self._search(entry):
                return
        elif self._recompute_overlaps and self._overlaps(entry) and self._recompute(entry):
            return
        if entry.mode is Mode.NO_FIT:
            assert entry.assignment is not None
            _set_aside(entry, entry.assignment.no_fit_reason or texts.PENDING_EVALUATION)
            return
        if entry.mode is Mode.PREEMPT:
            if not entry.targets:
                self._reserve(entry)
                _set_aside(entry, texts.WAITING_FOR_QUOTA)
                return
            if _gated(entry.workload):
                entry.finish(Outcome.GATED, texts.ADMISSION_GATED, texts.GATED)
                return
        if self._overlaps(entry):
            self._skip(entry, texts.OVERLAPS)
        elif not self._fits(entry):
            self._skip(entry, texts.NO_LONGER_FITS)
        else:
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        """The entry fits, now or when its targets have gone: what it gets is its own from here on."""
        if entry.mode is Mode.PREEMPT:
            assert entry.assignment is not None
            self._wait_for(entry, entry.usage, [target.workload for target in entry.targets])
            why, count = entry.assignment.message, len(entry.targets)
            message = f"{why}. Pending the preemption of {count} workload(s)"
            entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, message)
        elif self._blocked:
            entry.finish(Outcome.PARKED, texts.WAITING_FOR_PODS_READY, texts.PODS_NOT_READY)
        elif not self._migrate(entry):
            self.trial.charge(entry.cq.node, entry.usage)
            self._admitted = True
            entry.finish(Outcome.ADMITTED)
            self._blocked = blocks_admission(self._config)

    def _migrate(self, entry: Entry) -> bool:
        """CA10: let a variant wait for its admitted sibling to go. What has checks to pass waits later."""
        how, sibling, _ = standing(self._world, entry.workload)
        if sibling is None or needs_checks(entry.cq, entry.pod_sets):
            return False
        self._wait_for(entry, entry.usage, [sibling])
        entry.migrates = sibling if how is Standing.MIGRATES else None
        entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, texts.MIGRATING)
        return True

    def _wait_for(self, entry: Entry, usage: dict[FlavorResource, int], victims: Sequence[Workload]) -> None:
        """Keep *usage* for the entry until the victims have gone."""
        self.trial.charge(entry.cq.node, usage)
        self._claims.append((entry.cq.node, usage))
        entry.victims = victims
        for victim in victims:
            self._preempted[victim.key] = victim

    def _keep_waiting(self, entry: Entry) -> None:
        """What it waits for stays its own; nothing else has changed for it."""
        waiting = entry.waiting
        assert waiting is not None
        workloads = self._world.workloads
        victims = [workloads[key] for key in waiting.victims if key in workloads]
        self._wait_for(entry, waiting.usage, victims)
        entry.outcome = Outcome.PREEMPTING

    def _skip(self, entry: Entry, message: str) -> None:
        if entry.mode is Mode.PREEMPT:
            name = entry.cq.name
            self.skipped_preemptions[name] = self.skipped_preemptions.get(name, 0) + 1
        entry.finish(Outcome.SKIPPED, texts.WAITING_FOR_QUOTA, message)

    def _overlaps(self, entry: Entry) -> bool:
        return bool(entry.targets) and any(t.workload.key in self._preempted for t in entry.targets)

    def _fits(self, entry: Entry) -> bool:
        tree, node = self._world.tree, entry.cq.node
        if entry.mode is Mode.PREEMPT:
            self._hide_victims()
            with without(self._world, [target.workload for target in entry.targets]):
                return tree.fits(node, entry.usage)
        if not self._preempted:
            return tree.fits(node, entry.usage)
        if not self._hidden and tree.fits(node, entry.usage):
            return True
        self._hide_victims()
        return tree.fits(node, entry.usage) and self._is_free(entry)

    def _is_free(self, entry: Entry) -> bool:
        """Is what the entry needs free now, before any victim has gone?

        Victims can be larger than what is needed of them. The rest is for others, but not yet.
        """
        if not self._admitted:
            return True  # it was when the cycle began
        self.show_victims()
        tree, node = self._world.tree, entry.cq.node
        mark = tree.mark()
        for claimant, usage in self._claims:
            tree.remove(claimant, usage)
        free = tree.fits(node, entry.usage)
        tree.rollback(mark)
        return free

    def _recompute(self, entry: Entry) -> bool:
        """Look again for targets, those of earlier entries gone; True when the entry is finished."""
        assert entry.assignment is not None
        overlapping = [t.workload for t in entry.targets if t.workload.key in self._preempted]
        self._hide_victims()
        propose(self._world, entry, entry.assignment.pinned())
        name = entry.cq.name
        if entry.mode is Mode.FIT:
            self.recomputations[name] = "deferred_fit"
            self._wait_for(entry, entry.usage, overlapping)
            entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, texts.DEFERRED)
            return True
        self.recomputations[name] = "new_targets" if entry.targets else "skipped"
        return False

    def _search(self, entry: Entry) -> bool:
        """Look for the targets of a deferred entry; True when it is finished."""
        assert entry.assignment is not None
        entry.deferred = False
        self._hide_victims()
        if self._preempted and self._world.tree.fits(entry.cq.node, entry.usage):
            self._wait_for(entry, entry.usage, list(self._preempted.values()))
            entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, texts.DEFERRED)
            return True
        frs = entry.assignment.needs_preemption()
        entry.targets = get_targets(self._world, entry.workload, entry.usage, frs)
        return False

    # Reservations for those that wait

    def _reserve(self, entry: Entry) -> None:
        """Keep quota from being lent to others that the queue could not get back when it needs it."""
        if always_reclaims(entry.cq.spec.preemption):
            return
        entry.reserves = entry.queue.strict
        node = entry.cq.node
        reserved: dict[FlavorResource, int] = {}
        for fr, amount in entry.usage.items():
            quota = node.quotas.get(fr)
            nominal = 0 if quota is None else quota.nominal
            if entry.borrowing:
                limit = None if quota is None else quota.borrowing_limit
                reserved[fr] = amount if limit is None else min(amount, nominal + limit - node.used(fr))
            else:
                reserved[fr] = max(0, min(amount, nominal - node.used(fr)))
        self.trial.charge(node, reserved)
        self._reserved[entry.cq.name] = reserved

    def unreserve(self, cq: ClusterQueue) -> None:
        """What is kept for one class of a queue does not keep the next one out."""
        reserved = self._reserved.pop(cq.name, None)
        if reserved is not None:
            self.trial.discharge(cq.node, reserved)


def needs_checks(cq: ClusterQueue, pod_sets: Sequence[PodSetAssignment]) -> bool:
    """Must admission checks pass before a workload with this assignment is admitted (AC1)?"""
    return bool(relevant_checks(cq.spec, {flavor for p in pod_sets for flavor in p.flavors.values()}))


def _set_aside(entry: Entry, reason: str) -> None:
    assert entry.assignment is not None
    outcome = Outcome.SCANNING if pending_flavors(entry.assignment.scan) else Outcome.PARKED
    entry.finish(outcome, reason, entry.assignment.message)


def _gated(workload: Workload) -> bool:
    gates = workload.record.preemption_gates
    return bool(gates) and any(gate not in workload.open_gates for gate in gates)


def blocks_admission(config: ConfigurationSpec) -> bool:
    """Must the pods of one workload be ready before the next one is admitted?"""
    settings = config.wait_for_pods_ready
    return settings.enable and settings.block_admission


def always_reclaims(policy: ClusterQueuePreemption | None) -> bool:
    """Can the queue be sure to get back what it lends?"""
    return policy is not None and policy.reclaim_within_cohort == ALWAYS_RECLAIMS


__all__ = ["Processing", "always_reclaims", "blocks_admission"]
