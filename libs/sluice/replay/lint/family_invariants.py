"""Invariants of families of variants in any log (DB6), as variant-controller and scheduler saw them.

The controller answers what others write: the scheduler admits a variant, and only then can its parent be.
So a family is judged when the controller has gone on to later inputs, twice, as one leader may have crashed
in between.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from sluice.api import features
from sluice.api.labels import GATE_CONCURRENT_ADMISSION
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.timing import MICROS_PER_S
from sluice.core.variants.decide import family_deadline
from sluice.core.variants.decider import VariantController
from sluice.core.variants.state import Family, State, within
from sluice.core.workload.reasons import CONCURRENT_ADMISSION, FLAVOR_MIGRATION
from sluice.core.world.variant_policy import policy_of, restricted
from sluice.core.world.variants import policy_in_force, siblings
from sluice.events.base import WorkloadKey
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    Preempted,
    QuotaReleased,
    QuotaReserved,
    WorkloadDeactivated,
)
from sluice.events.slices import WorkloadCreated, WorkloadStopped, WorkloadUpdated
from sluice.events.variants import (
    ParentAdmitted,
    ParentEvicted,
    ParentMarked,
    ParentUnmarked,
    PreemptionGateOpened,
    VariantCreated,
    VariantDeactivated,
    VariantStopped,
)

from .observer import Observer, hears

GRACE = 2
"""So often the controller must have gone on before what it has left as it was counts as wrong."""


class _Settling(Observer, ABC):
    """Looks at families that something has happened to, when the controller has had its say."""

    decider = VariantController

    def __init__(self) -> None:
        self.due: dict[WorkloadKey, int] = {}
        """Family -> how often the controller went on and left it wrong."""
        self._decided = False

    @abstractmethod
    def wrong(self, state: State, family: Family) -> Iterator[str]:
        """Say what is wrong with a family that the controller has nothing to add to."""

    def settled(self, state: State) -> Iterable[str]:  # noqa: ARG002
        self._decided = True
        return ()

    def ended(self, state: State) -> Iterable[str]:  # noqa: ARG002
        """The log may end before the controller has answered."""
        return ()

    @hears
    def _came(
        self,
        state: State,
        event: Admitted
        | Evicted
        | QuotaReleased
        | WorkloadCreated
        | WorkloadDeactivated
        | WorkloadStopped
        | WorkloadUpdated,
    ) -> Iterator[str]:
        key = event.workload.key if isinstance(event, WorkloadCreated) else event.workload
        family = state.families.get(key) or state.of_variant.get(key)
        if self._decided:
            # The first input since: whatever came before it was decided on, but not this.
            self._decided = False
            yield from self._look(state, family.key if family is not None else None)
        if family is not None:
            self.due.setdefault(family.key, 0)

    @hears
    def _changed(self, _: State, __: ObjectApplied | ObjectDeleted) -> None:
        """Other rules hold for any of them now, by which the controller has not decided yet."""
        self._decided = False

    def _look(self, state: State, changed: WorkloadKey | None) -> Iterator[str]:
        for key in [key for key in self.due if key != changed]:
            family = state.families.get(key)
            texts = list(self.wrong(state, family)) if family is not None else []
            self.due[key] += 1
            if texts and self.due[key] < GRACE:
                continue
            del self.due[key]
            yield from texts


class ParentObserver(_Settling):
    """A parent is admitted exactly when one of its variants is, and as that one (CA7)."""

    name: ClassVar[str] = "parent-admitted"

    @hears
    def _parent_admitted(self, state: State, event: ParentAdmitted) -> Iterator[str]:
        family = state.families.get(event.workload)
        variant = family.variants.get(event.variant) if family is not None else None
        if variant is None or variant.admitted_at is None:
            yield f"{event.workload} was admitted as {event.variant}, which is not admitted"
        elif variant.evicted or variant.stopped:
            # Told to go, or stopped already: the scheduler gives its quota to others when it hears of that.
            yield f"{event.workload} was admitted as {event.variant}, whose stop was not settled"

    def wrong(self, state: State, family: Family) -> Iterator[str]:
        if state.policy_of(family) is None or not family.active:
            return  # what runs is on its way out, or stays until it is known where it belongs
        running = family.variants.get(family.running) if family.running is not None else None
        if family.running is None:
            for variant in family.variants.values():
                if variant.runs:
                    yield f"{variant.key} is admitted, but its parent {family.key} is not"
        elif not family.leaving and (running is None or not running.runs):
            yield f"{family.key} is admitted as {family.running}, which is not (any more)"


class OrphanObserver(Observer):
    """No variant is made for a parent that is over: variants end with their parents (CA4)."""

    name: ClassVar[str] = "no-orphan"
    decider = VariantController

    @hears
    def _created(self, state: State, event: VariantCreated) -> Iterator[str]:
        if event.workload.parent not in state.families:
            yield f"{event.workload.key} is a variant of {event.workload.parent}, which is over or never was"


class AllowedObserver(Observer):
    """A job's own allowed flavors hold for its variants, and quota is of flavors that are allowed (CA4)."""

    name: ClassVar[str] = "allowed-flavors"
    decider = Scheduler

    @hears
    def _created(self, state: SchedulerState, event: VariantCreated) -> Iterator[str]:
        record = event.workload
        parent = state.world.workloads.get(record.parent) if record.parent is not None else None
        allowed = parent.record.allowed_flavors if parent is not None else ()
        if allowed and not set(record.allowed_flavors) <= set(allowed):
            yield f"{record.key} may use {list(record.allowed_flavors)}, its job allows {list(allowed)}"

    @hears
    def _reserved(self, state: SchedulerState, event: QuotaReserved) -> Iterator[str]:
        """By the flavors that the scheduler knew of: an edit may have been on its way."""
        workload = state.world.workloads.get(event.workload)
        # Not as the scheduler works it out: it could be wrong.
        gates = state.world.config.feature_gates
        allowed: Sequence[str] = workload.record.allowed_flavors if workload is not None else ()
        if workload is not None and workload.record.parent is None:
            allowed = allowed if features.enabled(gates, features.CONCURRENT_ADMISSION) else ()
        if allowed and not within(event.pod_sets, allowed):
            given = sorted({name for pods in event.pod_sets for name in pods.flavors.values()})
            yield f"{event.workload} has quota of {given}, it may use {list(allowed)}"


class MigrationObserver(Observer):
    """Jobs migrate only where they race: not without a policy, nor without the gate (CA1, CA10)."""

    name: ClassVar[str] = "migration"
    decider = Scheduler

    @hears
    def _evicted(self, state: SchedulerState, event: Evicted) -> Iterator[str]:
        workload = state.world.workloads.get(event.workload)
        if event.reason != FLAVOR_MIGRATION or workload is None:
            return
        # It may leave a queue that is its local queue's no more: what counts is where the other one races.
        names = [other.cluster_queue for other in siblings(state.world, workload)]
        queues = [queue for name in names if (queue := state.world.cluster_queues.get(name)) is not None]
        if all(policy_in_force(state.world.config, queue.spec) is None for queue in queues):
            yield f"{event.workload} was evicted to migrate, and its job races nowhere"


class MarkObserver(Observer):
    """What runs, or may run with quota of its own, neither becomes a parent nor stops being one (CA4)."""

    name: ClassVar[str] = "stopped-first"
    decider = VariantController

    @hears
    def _marked(self, state: State, event: ParentMarked) -> Iterator[str]:
        family = state.families.get(event.workload)
        if family is not None and family.holds and (family.runs_alone or not family.makes_way):
            yield f"{event.workload} became a parent while it had quota of its own"

    @hears
    def _unmarked(self, state: State, event: ParentUnmarked) -> Iterator[str]:
        family = state.families.get(event.workload)
        if family is not None and family.running is not None:
            yield f"{event.workload} runs as {family.running}, and is no parent any more"


class HandOverObserver(Observer):
    """What is evicted as its queue begins to race keeps its quota until its variants can ask for it (CA4)."""

    name: ClassVar[str] = "kept-for-variants"
    decider = Scheduler

    def __init__(self) -> None:
        self.leaving: dict[WorkloadKey, str] = {}
        """Workload that has to race -> the queue whose quota it has."""

    @hears
    def _evicted(self, state: SchedulerState, event: Evicted) -> None:
        workload = state.world.workloads.get(event.workload)
        if workload is not None and workload.record.parent is None and event.reason == CONCURRENT_ADMISSION:
            self.leaving[workload.key] = workload.cluster_queue

    @hears
    def _released(self, state: SchedulerState, event: QuotaReleased) -> Iterator[str]:
        name, world = self.leaving.pop(event.workload, None), state.world
        workload = world.workloads.get(event.workload)
        if name is None or workload is None or not workload.active:
            return
        record = workload.record
        local = world.local_queues.get(f"{record.namespace}/{record.queue_name}")
        if local is None or local.cluster_queue != name:
            return
        queue = world.cluster_queues.get(local.cluster_queue)
        policy = (
            policy_of(queue.spec) if queue is not None and policy_in_force(world.config, queue.spec) else None
        )
        if policy is None or not restricted(policy, record.allowed_flavors):
            return  # it has to race no more, or never can
        if not world.families.get(workload.key):
            yield f"{event.workload} gave its quota up to race for it, and has no variant yet"


class ChanceObserver(_Settling):
    """A family that waits has an active variant, or a delay or a failure that says why not (CA9, CA12)."""

    name: ClassVar[str] = "has-a-chance"

    def wrong(self, state: State, family: Family) -> Iterator[str]:
        policy = state.policy_of(family)
        if policy is None or not policy.wanted or not family.active or family.running is not None:
            return
        if family.holds or not restricted(policy, family.record.allowed_flavors):
            return  # it is to stop first; or it can never run
        variants = family.variants.values()
        if any(v.active or v.failed or v.admitted_at is not None for v in variants):
            return
        if family_deadline(state, family) is None:
            yield f"{family.key} waits, but none of its variants is active, and nothing says why"


class WantedObserver(_Settling):
    """A family has the variants that its queue asks for, of the flavors that its job allows (CA4, CA13)."""

    name: ClassVar[str] = "wanted-variants"

    def wrong(self, state: State, family: Family) -> Iterator[str]:
        policy = state.policy_of(family)
        if policy is None or family.holds or family.leaving:
            return
        if family.ending:
            yield from (
                f"{key} is there, and its job only has to stop"
                for key in family.variants
                if key != family.running
            )
            return
        allowed = family.record.allowed_flavors
        for wanted in policy.wanted:
            flavors = tuple(name for name in wanted.flavors if not allowed or name in allowed)
            variant = family.named(wanted.name)
            if variant is None and flavors:
                yield f"{family.key} has no variant {wanted.name}, which its queue asks for"
            elif variant is not None and tuple(variant.record.allowed_flavors) != flavors:
                have = list(variant.record.allowed_flavors)
                yield f"{variant.key} may use {have}, its queue and its job say {list(flavors)}"
        names = [wanted.name for wanted in policy.wanted]
        for variant in family.variants.values():
            if variant.name not in names:
                yield f"{variant.key} is there, and its queue asks for none of its name"


class StopObserver(Observer):
    """What runs is stopped for an edit of its queue only if its flavors are not allowed any more (CA13), and
    the scheduler hears why it was."""

    name: ClassVar[str] = "stopped-for-cause"
    decider = VariantController

    def __init__(self) -> None:
        self.reasons: dict[WorkloadKey, str] = {}
        """Variant -> why its parent was told to stop, until it has."""

    @hears
    def _evicted(self, state: State, event: ParentEvicted) -> Iterator[str]:
        self.reasons[event.variant] = event.reason
        family = state.families.get(event.workload)
        policy = state.policy_of(family) if family is not None else None
        variant = family.variants.get(event.variant) if family is not None else None
        if event.reason != CONCURRENT_ADMISSION or policy is None or family is None or variant is None:
            return
        wanted = policy.named(variant.name)
        allowed = family.record.allowed_flavors
        flavors = [name for name in wanted.flavors if not allowed or name in allowed] if wanted else []
        # Without a flavor that both allow there is no such variant, whatever little its pods ask for.
        if variant.assignment is not None and flavors and within(variant.assignment, flavors):
            yield f"{variant.key} was stopped for its flavors, which are all allowed"

    @hears
    def _stopped(self, _: State, event: VariantStopped) -> Iterator[str]:
        reason = self.reasons.pop(event.workload, "")
        if reason and not event.reason:
            yield f"{event.workload} was stopped for {reason}, and the scheduler does not hear of that"


class OpenGateObserver(_Settling):
    """The gate of a variant is closed once it is admitted: its turn at preempting is over (CA11)."""

    name: ClassVar[str] = "open-gate"

    def wrong(self, state: State, family: Family) -> Iterator[str]:
        if state.policy_of(family) is None or family.leaving or family.holds or not family.active:
            return
        for variant in family.variants.values():
            if variant.gate_at is not None and variant.runs:
                yield f"{variant.key} is admitted, and its gate is still open"


class DelayObserver(Observer):
    """Who gives up for its deleteDelaySeconds has had them since the admission that it names (CA12)."""

    name: ClassVar[str] = "delays-had"
    decider = VariantController

    _said = re.compile(r'deleteDelaySeconds: (\d+) after Variant "([^"]+)" was admitted')

    @hears
    def _deactivated(self, state: State, event: VariantDeactivated) -> Iterator[str]:
        said = self._said.search(event.message)
        family = state.families.get(event.parent)
        if said is None or family is None:
            return
        named = next((variant for variant in family.variants.values() if variant.key == said[2]), None)
        since = named.admitted_at if named is not None else None
        if since is None:
            yield f"{event.workload} gave up after {said[2]} was admitted, which is not"
        elif state.at < since + int(said[1]) * MICROS_PER_S:
            had = (state.at - since) // MICROS_PER_S
            yield f"{event.workload} gave up {had} s after {said[2]} was admitted, not {said[1]} s"


class VariantObserver(Observer):
    """A parent has at most one admitted variant at any time (CA10)."""

    name = "one-variant"
    decider = Scheduler

    @hears
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

    @hears
    def _opened(self, state: SchedulerState, event: PreemptionGateOpened) -> Iterator[str]:
        family = state.world.families.get(event.parent, {})
        opened = [v.key for v in family.values() if GATE_CONCURRENT_ADMISSION in v.open_gates]
        if len(opened) > 1:
            yield f"{event.parent} has {len(opened)} variants that may preempt: {', '.join(opened)}"

    @hears
    def _preempted(self, state: SchedulerState, event: Preempted) -> Iterator[str]:
        preemptor = state.world.workloads.get(event.preemptor)
        if preemptor is None:
            return
        closed = [g for g in preemptor.record.preemption_gates if g not in preemptor.open_gates]
        migrates = event.workload in state.world.families.get(preemptor.record.parent or WorkloadKey(""), {})
        if closed and not migrates:
            yield f"{event.preemptor} preempted {event.workload} behind its closed gate {closed[0]}"


FAMILY_OBSERVERS: tuple[type[Observer], ...] = (
    VariantObserver,
    GateObserver,
    ParentObserver,
    OrphanObserver,
    AllowedObserver,
    MigrationObserver,
    MarkObserver,
    HandOverObserver,
    ChanceObserver,
    WantedObserver,
    StopObserver,
    OpenGateObserver,
    DelayObserver,
)
