"""What becomes of one entry of a cycle, given what the entries before it got (SC1, phase 4)."""

from collections.abc import Sequence

from sluice.api.kueue import ClusterQueuePreemption, ConfigurationSpec
from sluice.events.base import PodSetAssignment

from . import entry as texts
from .assignment import Mode, pending_flavors
from .check_states import relevant_checks
from .entry import Entry, Outcome
from .families import Standing, standing
from .model import ClusterQueue, Workload, World
from .nomination import propose
from .quota import FlavorResource
from .reservations import Trial, without

ALWAYS_RECLAIMS = "Any"


class Processing:
    """Decides on entries one after the other; `trial` must be entered meanwhile."""

    __slots__ = (
        "_blocked",
        "_config",
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
        self._recompute_overlaps = world.config.feature_gates.get(
            "RecomputeAssignmentUponPreemptionTargetsOverlap", True
        )
        self._blocked = blocked
        self._preempted: dict[str, Workload] = {}
        """Victims of entries of this cycle."""
        self._reserved: dict[str, dict[FlavorResource, int]] = {}
        self.trial = Trial(world)
        self.skipped_preemptions: dict[str, int] = {}
        self.recomputations: dict[str, str] = {}

    def process(self, entry: Entry) -> None:
        """Decide on *entry* against the tree as the entries before it have left it."""
        if entry.waiting is not None:
            self._keep_waiting(entry)
            return
        if self._recompute_overlaps and self._overlaps(entry) and self._recompute(entry):
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
            self.trial.charge(entry.cq.node, entry.usage)
            assert entry.assignment is not None
            self._wait_for(entry, [target.workload for target in entry.targets])
            why, count = entry.assignment.message, len(entry.targets)
            message = f"{why}. Pending the preemption of {count} workload(s)"
            entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, message)
        elif self._blocked:
            entry.finish(Outcome.PARKED, texts.WAITING_FOR_PODS_READY, texts.PODS_NOT_READY)
        elif not self._migrate(entry):
            self.trial.charge(entry.cq.node, entry.usage)
            entry.finish(Outcome.ADMITTED)
            self._blocked = blocks_admission(self._config)

    def _migrate(self, entry: Entry) -> bool:
        """CA10: let a variant wait for its admitted sibling to go. What has checks to pass waits later."""
        how, sibling, _ = standing(self._world, entry.workload)
        if sibling is None or needs_checks(entry.cq, entry.pod_sets()):
            return False
        self.trial.charge(entry.cq.node, entry.usage)
        self._wait_for(entry, [sibling])
        entry.migrates = sibling if how is Standing.MIGRATES else None
        entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, texts.MIGRATING)
        return True

    def _wait_for(self, entry: Entry, victims: list[Workload]) -> None:
        entry.victims = victims
        for victim in victims:
            self._preempted[victim.key] = victim

    def _keep_waiting(self, entry: Entry) -> None:
        """What it waits for stays its own; nothing else has changed for it."""
        waiting = entry.waiting
        assert waiting is not None
        workloads = self._world.workloads
        self._wait_for(entry, [workloads[key] for key in waiting.victims if key in workloads])
        self.trial.charge(entry.cq.node, waiting.usage)
        entry.outcome = Outcome.PREEMPTING

    def _skip(self, entry: Entry, message: str) -> None:
        if entry.mode is Mode.PREEMPT:
            name = entry.cq.name
            self.skipped_preemptions[name] = self.skipped_preemptions.get(name, 0) + 1
        entry.finish(Outcome.SKIPPED, texts.WAITING_FOR_QUOTA, message)

    def _overlaps(self, entry: Entry) -> bool:
        return bool(entry.targets) and any(t.workload.key in self._preempted for t in entry.targets)

    def _fits(self, entry: Entry) -> bool:
        if not self._preempted and not entry.targets:
            return self._world.tree.fits(entry.cq.node, entry.usage)
        gone = [*self._preempted.values(), *(target.workload for target in entry.targets)]
        with without(self._world, gone):
            return self._world.tree.fits(entry.cq.node, entry.usage)

    def _recompute(self, entry: Entry) -> bool:
        """Look again for targets, those of earlier entries gone; True when the entry is finished."""
        assert entry.assignment is not None
        overlapping = [t.workload for t in entry.targets if t.workload.key in self._preempted]
        with without(self._world, list(self._preempted.values())):
            propose(self._world, entry, entry.assignment.pinned())
        name = entry.cq.name
        if entry.mode is Mode.FIT:
            self.recomputations[name] = "deferred_fit"
            self.trial.charge(entry.cq.node, entry.usage)
            self._wait_for(entry, overlapping)
            entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, texts.DEFERRED)
            return True
        self.recomputations[name] = "new_targets" if entry.targets else "skipped"
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
