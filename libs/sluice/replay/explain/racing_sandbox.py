"""Sandbox of a job that races with variants: the variant-controller and the scheduler, on copies.

    outcome = Race(scheduler_state, variant_state, seq, at).run(record)

Time stands still, so create delays are not over and no gate times out; who is told to stop stops at once.
Nothing is written anywhere.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from sluice.api.features import CONCURRENT_ADMISSION, enabled
from sluice.api.kueue import ConcurrentAdmissionPolicy
from sluice.core.decision_loop import MOST_STEPS
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.variants.activity import desired
from sluice.core.variants.decider import VariantController
from sluice.core.variants.state import State as VariantState
from sluice.core.variants.state import Variant
from sluice.core.workload.pending_reasons import PENDING_EVALUATION
from sluice.core.world.inadmissible import without_other_flavors
from sluice.events.base import Event, Micros
from sluice.events.scheduler import Admitted, Evicted, Preempted, QuotaReserved
from sluice.events.slices import WorkloadCreated, WorkloadRecord, WorkloadStopped
from sluice.events.variants import ParentEvicted
from sluice.log.runtime import process_pool

from .activity import queue_words
from .kept_out import kept_out
from .sandbox import FEW, Outcome


def policy_for(state: SchedulerState, record: WorkloadRecord) -> ConcurrentAdmissionPolicy | None:
    """Return the policy by which the job would race, None in an ordinary queue."""
    world = state.world
    local = world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    queue = world.cluster_queues.get(local.cluster_queue) if local is not None else None
    if queue is None or not enabled(world.config.feature_gates, CONCURRENT_ADMISSION):
        return None
    return queue.spec.concurrent_admission_policy


class Race:
    """One job among all others, from its creation until nobody has anything to say."""

    def __init__(self, scheduled: SchedulerState, families: VariantState, seq: int, at: Micros) -> None:
        self.scheduler, self.controller = Scheduler(), VariantController()
        self.seq, self.at = seq, at
        self._scheduled, self._families = scheduled, families

    def run(self, record: WorkloadRecord) -> Outcome:
        """Return what becomes of the job; `reserved` is that of the variant it would run as, if any."""
        if len(self._scheduled.world.workloads) > FEW and process_pool.AVAILABLE:
            return process_pool.in_copy(lambda: self._run(self._scheduled, self._families, record))
        scheduled = self.scheduler.load(self.scheduler.dump(self._scheduled))
        families = self.controller.load(self.controller.dump(self._families))
        return self._run(scheduled, families, record)

    def _run(self, scheduled: SchedulerState, families: VariantState, record: WorkloadRecord) -> Outcome:
        found = Outcome()
        told: deque[Event] = deque([WorkloadCreated(cause=self.seq, workload=record)])
        for _ in range(MOST_STEPS):
            while told:
                self._tell(scheduled, families, told.popleft(), own=False)
            said: Sequence[Event] = self.scheduler.decide(scheduled, self.at) or self.controller.decide(
                families, self.at
            )
            if not said:
                break
            for event in said:
                self._tell(scheduled, families, event, own=True)
                told += self._obeyed(families, event)
            self._note(families, record, said, found)
        else:
            found.settled = False
        self._sum_up(scheduled, families, record, found)
        return found

    def _tell(self, scheduled: SchedulerState, families: VariantState, event: Event, *, own: bool) -> None:
        self.seq += not own
        self.scheduler.apply(scheduled, event, self.seq, self.at)
        self.controller.apply(families, event, self.seq, self.at)

    def _obeyed(self, families: VariantState, event: Event) -> Iterator[Event]:
        """Yield what executors answer: a parent's job stops, and so does who has no parent."""
        match event:
            case ParentEvicted(workload=workload):
                yield WorkloadStopped(cause=self.seq, workload=workload)
            case Evicted(workload=workload) if workload not in families.of_variant:
                yield WorkloadStopped(cause=self.seq, workload=workload)

    def _note(
        self, families: VariantState, record: WorkloadRecord, said: Sequence[Event], found: Outcome
    ) -> None:
        for event in said:
            match event:
                case Preempted(preemptor=preemptor) if self._is_mine(families, record, preemptor):
                    found.preempted.append(event)
                case QuotaReserved(workload=workload):
                    variant = families.of_variant.get(workload)
                    if variant is not None and variant.key == record.key:
                        found.reserving[variant.variants[workload].name] = event
                    else:
                        found.others.append(workload)
                case Admitted(workload=workload) if self._is_mine(families, record, workload):
                    found.admitted = True

    @staticmethod
    def _is_mine(families: VariantState, record: WorkloadRecord, workload: str) -> bool:
        family = families.of_variant.get(workload)  # type: ignore[call-overload]
        return family is not None and bool(family.key == record.key)

    def _sum_up(
        self, scheduled: SchedulerState, families: VariantState, record: WorkloadRecord, found: Outcome
    ) -> None:
        family = families.families.get(record.key)
        if family is None:
            return
        policy = families.policy_of(family)
        held = {v.name: found.reserving[v.name] for v in family.ordered() if v.assignment is not None}
        first = next((v for v in family.ordered() if v.runs), None)
        best = first.name if first is not None else next(iter(held), "")
        found.admitted = first is not None
        found.reserved, found.variant = held.pop(best, None), best
        found.reserving = held
        for variant in family.ordered():
            if variant.assignment is not None:
                continue
            if variant.active:
                found.waiting[variant.name] = _why(scheduled, variant)
            elif policy is not None and first is None:
                found.waiting[variant.name] = desired(family, policy, variant, self.at)[1]
        if found.reserved is None and found.waiting:
            found.reason, _, found.message = next(iter(found.waiting.values())).partition(": ")


def _why(scheduled: SchedulerState, variant: Variant) -> str:
    workload = scheduled.world.workloads.get(variant.key)
    peers = workload.peers if workload is not None else None
    if workload is not None and (closed := queue_words(scheduled, workload.record)):
        return ": ".join(closed)  # as the status of a real one has it
    if workload is not None and peers is None:
        return ": ".join(kept_out(scheduled, workload))
    if peers is None or not peers.reason:
        return PENDING_EVALUATION
    return f"{peers.reason}: {without_other_flavors(peers.message)}".removesuffix(": ")
