"""Invariants that look at what the deciders make of the log, beside those of `sluice.replay.lint`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from sluice.api.core_v1 import Taint, Toleration
from sluice.api.kueue import PodSetUpdate, ResourceFlavorSpec
from sluice.api.meta import LabelSelectorRequirement
from sluice.core.queueing.pending_queue import Preemptor
from sluice.core.quota.tree import FlavorResource
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.state import Job, Phase, State
from sluice.core.workload.charges import beyond
from sluice.core.world.charging import inherited, needs
from sluice.core.world.reservations import without
from sluice.core.world.variants import family_usage
from sluice.core.world.workload import Workload
from sluice.events.base import JobKey, PodSet, WorkloadKey
from sluice.events.checks import ChecksRequested, CheckStateChanged
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    Preempted,
    PreemptionIssued,
    QuotaReleased,
    QuotaReserved,
    WorkloadSliceReplaced,
    WorkloadsParked,
)
from sluice.events.slices import JobResized, JobResumed, WorkloadPodsReady, WorkloadUpdated
from sluice.events.variants import ParentAdmitted
from sluice.replay.lint.observer import Observer, hears

from .execution_time import ExecutionObserver
from .moves import MovesObserver


class SharedObserver(Observer):
    """What variants of one job need of the same flavors is charged to their queue once (CA10)."""

    name: ClassVar[str] = "shared-once"
    decider = Scheduler

    def __init__(self) -> None:
        self.due: dict[WorkloadKey, None] = {}

    @hears
    def _came(self, state: SchedulerState, event: QuotaReserved | QuotaReleased | Admitted | Evicted) -> None:
        workload = state.world.workloads.get(event.workload)
        if workload is not None and workload.record.parent is not None:
            self.due[workload.record.parent] = None

    def settled(self, state: SchedulerState) -> Iterator[str]:
        for parent in self.due:
            holding: dict[str, list[Workload]] = {}
            for variant in state.world.families.get(parent, {}).values():
                if variant.assignment is not None:
                    holding.setdefault(variant.cluster_queue, []).append(variant)
            for queue, variants in holding.items():
                yield from _charged_once(state, parent, queue, variants)
        self.due.clear()


def _charged_once(
    state: SchedulerState, parent: WorkloadKey, queue: str, variants: Sequence[Workload]
) -> Iterator[str]:
    most: dict[FlavorResource, int] = {}
    charged: dict[FlavorResource, int] = {}
    for variant in variants:
        for fr, amount in needs(state.world, variant).items():
            most[fr] = max(most.get(fr, 0), amount)
        for fr, amount in variant.usage.items():
            charged[fr] = charged.get(fr, 0) + amount
    for (flavor, resource), amount in most.items():
        found = charged.get((flavor, resource), 0)
        if found != amount:
            text = f"the variants of {parent} need {amount} {resource} of {flavor}, and {queue} is charged"
            yield f"{text} for {found}"


class StaysReadyObserver(Observer):
    """A slice that brings no more pods than are there leaves them ready (WS3)."""

    name = "stays-ready"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.ready: dict[JobKey, tuple[WorkloadKey, dict[str, int]]] = {}
        """Job whose pods are ready -> its slice, and how many pods of each set it was told to run."""

    @hears
    def _told(
        self, state: State, event: WorkloadPodsReady | WorkloadUpdated | JobResumed | JobResized
    ) -> None:
        if isinstance(event, WorkloadPodsReady | WorkloadUpdated):
            job = state.by_workload.get(event.workload)
        else:
            job = state.jobs.get(event.job)
        if job is not None:
            self._note(job)

    def _note(self, job: Job) -> None:
        if job.pods_ready and job.phase is Phase.RUNNING:
            counts = {pods.name: pods.count for pods in job.placement}
            self.ready[job.key] = (job.record.key, counts)
        else:
            self.ready.pop(job.key, None)

    @hears
    def _replaced(self, state: State, event: WorkloadSliceReplaced) -> Iterator[str]:
        job = state.by_workload.get(event.by)
        if job is None or job.record.key != event.by:
            return
        before, had = self.ready.get(job.key, (None, {}))
        now = {pods.name: pods.count for pods in job.placement}
        grown = any(count > had.get(name, 0) for name, count in now.items())
        if before == event.workload and job.phase is Phase.RUNNING and not grown and not job.pods_ready:
            yield f"{event.by} has no more pods than {event.workload} had ready, and they are not any more"
        self._note(job)


class KeptObserver(Observer):
    """What a preemptor waits for goes to nobody else while its victims leave (CA6, decision 0023).

    Judged where only those who wait for victims in their queues play a part, as jobs of one workload each.
    A queue keeps to its order: who comes before the preemptor may have its room. And while somebody comes
    before that of a StrictFIFO queue, served, put aside or waiting for ever, nothing is kept for it.
    """

    name: ClassVar[str] = "kept-for-preemptors"
    decider = Scheduler

    def __init__(self) -> None:
        self.came: dict[WorkloadKey, None] = {}
        """Who has got quota in this step."""
        self.first: dict[WorkloadKey, None] = {}
        """Who has got quota or was put aside in this step: if StrictFIFO, it was the first of its queue."""
        self.moved = False
        """Somebody has preempted, or will, in this step: who comes first was weighed anew."""
        self.waited: dict[WorkloadKey, None] = {}
        """Who waited before this step."""

    @hears
    def _reserved(self, _: SchedulerState, event: QuotaReserved) -> None:
        self.came[event.workload] = self.first[event.workload] = None

    @hears
    def _parked(self, _: SchedulerState, event: WorkloadsParked) -> None:
        if event.aside:
            self.first.update(dict.fromkeys(event.workloads))

    @hears
    def _issued(self, _: SchedulerState, event: PreemptionIssued) -> None:
        self.moved = True
        self.waited[event.workload] = None

    @hears
    def _preempted(self, _: SchedulerState, _event: Preempted) -> None:
        self.moved = True

    def settled(self, state: SchedulerState) -> Iterator[str]:
        if not self.waited:
            self.came.clear()
            self.first.clear()
            self.moved = False
            return
        came, self.came = self.came, {}
        first, self.first = self.first, {}
        moved, self.moved = self.moved, False
        if came and not moved and not state.world.pending_preemptions:
            for key in came:
                yield from self._taken(state, key, first)
        gone = [key for key in self.waited if _waiting(state, key) is None]
        for key in gone:
            del self.waited[key]

    def _taken(self, state: SchedulerState, key: WorkloadKey, first: Iterable[WorkloadKey]) -> Iterator[str]:
        world = state.world
        thief = world.workloads.get(key)
        queue = world.cluster_queues.get(thief.cluster_queue) if thief is not None else None
        if thief is None or queue is None or thief.record.parent is not None or key in self.waited:
            return
        if thief.record.replaces is not None or thief.assignment is None:
            return
        root = queue.node.root()
        there, leaving = [], dict[WorkloadKey, None]()
        for other in self.waited:
            waiting = _waiting(state, other)
            if (
                waiting is not None
                and world.cluster_queues[waiting.workload.cluster_queue].node.root() is root
            ):
                if waiting.recheck or waiting.workload.record.parent is not None:
                    return
                leaving.update(waiting.victims)  # also those of one that the thief comes before
                if _is_kept_for(state, waiting, first) and not _comes_before(thief, waiting):
                    there.append(waiting)
        victims = [world.workloads[name] for name in leaving if name in world.workloads]
        for one in there:
            with without(world, victims):
                for also in there:
                    if also is not one:
                        world.tree.add(world.cluster_queues[also.workload.cluster_queue].node, also.usage)
                node = world.cluster_queues[one.workload.cluster_queue].node
                if world.tree.fits(node, one.usage):
                    continue
                world.tree.remove(queue.node, thief.usage)
                if world.tree.fits(node, one.usage):
                    yield f"{key} has quota that {one.workload.key} waits for while its victims leave"


def _is_kept_for(state: SchedulerState, waiting: Preemptor, first: Iterable[WorkloadKey]) -> bool:
    """Was anything kept for the preemptor in this step?

    Not in a queue that is inactive, and not in StrictFIFO while others come before it.
    """
    workload, workloads = waiting.workload, state.world.workloads
    queue = state.pending.queues[workload.cluster_queue]
    if queue.stopped:
        return False
    if not queue.strict:
        return True
    before = (workloads[key] for key in first if key in workloads)
    return waiting in queue.holding() and not any(
        other.cluster_queue == workload.cluster_queue and other.rank < workload.rank for other in before
    )


def _comes_before(thief: Workload, waiting: Preemptor) -> bool:
    """Does it come before the preemptor in its own queue? Then nothing is kept from it (decision 0023)."""
    own = waiting.workload
    return thief.cluster_queue == own.cluster_queue and thief.rank < own.rank


class EnoughObserver(Observer):
    """Whom a workload preempts leave it the room that it needs, whatever siblings go on to hold (CA10).

    Those are among them who leave for others, but for less than they hold: who has the rest planned waits for
    them, too, when its own have gone (`Admission._wait_on`).
    """

    name: ClassVar[str] = "preempts-enough"
    decider = Scheduler

    def __init__(self) -> None:
        self.issued: dict[WorkloadKey, PreemptionIssued] = {}

    @hears
    def _issued(self, _: SchedulerState, event: PreemptionIssued) -> None:
        self.issued[event.workload] = event

    def settled(self, state: SchedulerState) -> Iterator[str]:
        if not self.issued:
            return
        issued, self.issued = self.issued, {}
        world = state.world
        leaving = {name for event in issued.values() for name in event.victims}
        victims = [
            victim
            for queue in world.cluster_queues.values()
            for victim in queue.workloads.values()
            # What is only promised (AC6) is not in use.
            if victim.evicted_at is not None or victim.key in leaving or victim.preemptions
        ]
        for key, event in issued.items():
            waiting = _waiting(state, key)
            if waiting is None or waiting.recheck:
                continue
            with without(world, victims) as trial:
                for heir in [heir for each in victims for heir in inherited(world, each)]:
                    trial.charge(world.cluster_queues[heir[0].cluster_queue].node, heir[1])
                node = world.cluster_queues[waiting.workload.cluster_queue].node
                held = family_usage(world, waiting.workload, node.name)
                if not world.tree.fits(node, beyond(waiting.usage, held)):
                    gone = ", ".join(event.victims)
                    yield f"{key} preempts {gone}, and has not the room that it needs when they have gone"


def _waiting(state: SchedulerState, key: WorkloadKey) -> Preemptor | None:
    workload = state.world.workloads.get(key)
    peers = workload.peers if workload is not None else None
    return None if peers is None else peers.waiting


class UpdatesObserver(Observer):
    """What the checks that let a workload in add to its pods is what dispatch adds to them (AC2)."""

    name: ClassVar[str] = "brings-updates"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.said: dict[WorkloadKey, dict[str, Sequence[PodSetUpdate]]] = {}
        """Workload with a reservation -> the checks that are Ready, and what they add."""
        self.counts: dict[WorkloadKey, tuple[int, Sequence[str]]] = {}
        """Workload -> its attempt, and which checks count for it."""
        self.brings: dict[WorkloadKey, dict[str, Sequence[PodSetUpdate]]] = {}
        """Workload that was admitted -> what its checks had added by then."""

    @hears
    def _begins(self, _: State, event: QuotaReserved | QuotaReleased) -> None:
        for known in (self.said, self.counts, self.brings):
            known.pop(event.workload, None)

    @hears
    def _asked(self, _: State, event: ChecksRequested) -> None:
        self.counts[event.workload] = (event.attempt, event.checks)
        said = self.said.get(event.workload, {})
        self.said[event.workload] = {name: said[name] for name in event.checks if name in said}

    @hears
    def _answered(self, _: State, event: CheckStateChanged) -> None:
        attempt, checks = self.counts.get(event.workload, (0, ()))
        if event.attempt == attempt and event.check in checks:
            said = self.said.setdefault(event.workload, {})
            if event.state == "Ready":
                said[event.check] = event.pod_set_updates
            else:
                said.pop(event.check, None)

    @hears
    def _admitted(self, _: State, event: Admitted) -> None:
        self.brings[event.workload] = dict(self.said.get(event.workload, {}))

    @hears
    def _through(self, _: State, event: ParentAdmitted) -> None:
        self.brings[event.workload] = self.brings.get(event.variant, {})

    @hears
    def _placed(self, state: State, event: JobResumed) -> Iterable[str]:
        job = state.jobs.get(event.job)
        return () if job is None else self._wrong(state, job)

    @hears
    def _replaced(self, state: State, event: WorkloadSliceReplaced) -> Iterable[str]:
        job = state.by_workload.get(event.by)
        placed = job is not None and job.record.key == event.by and job.phase is not Phase.PENDING
        return self._wrong(state, job) if job is not None and placed else ()

    def _wrong(self, state: State, job: Job) -> Iterator[str]:
        brings = self.brings.get(job.record.key, {})
        for pods in job.placement:
            labels: dict[str, str] = {}
            notes: dict[str, str] = {}
            selector: dict[str, str] = {}
            for flavor in pods.flavors.values():
                spec = state.flavors.get(flavor)
                selector |= spec.node_labels if spec is not None else {}
            for update in [each for updates in brings.values() for each in updates if each.name == pods.name]:
                labels |= update.labels
                notes |= update.annotations
                selector |= update.node_selector
            found = (pods.labels, pods.annotations, pods.node_selector)
            if found != (labels, notes, selector):
                yield f"{job.record.key}: {pods.name} gets {found}, should get {(labels, notes, selector)}"


class PlacedObserver(Observer):
    """Quota is reserved on flavors whose nodes the pods may run on: selector, affinity and taints (SC4)."""

    name: ClassVar[str] = "may-run-there"
    decider = Scheduler

    @hears
    def _reserved(self, state: SchedulerState, event: QuotaReserved) -> Iterator[str]:
        workload = state.world.workloads.get(event.workload)
        if workload is None or workload.record.replaces is not None:
            return  # a slice goes where its job runs
        flavors = state.world.flavors
        assigned = {pods.name: dict.fromkeys(pods.flavors.values()) for pods in event.pod_sets}
        for pods in workload.record.pod_sets:
            for name in assigned.get(pods.name, ()):
                if name in flavors and (why := _barred(flavors[name].spec, pods)):
                    yield f"{event.workload}: pods of {pods.name} may not run on {name}: {why}"


def _barred(spec: ResourceFlavorSpec, pods: PodSet) -> str:
    for taint in spec.node_taints:
        bars = taint.effect in ("NoSchedule", "NoExecute")
        if bars and not any(_tolerates(each, taint) for each in (*pods.tolerations, *spec.tolerations)):
            return f"taint {taint.key}"
    labels = spec.node_labels
    if any(labels.get(key, value) != value for key, value in pods.node_selector.items()):
        return f"selector {pods.node_selector}"
    met = [
        all(_meets(labels[each.key], each) for each in term.match_expressions if each.key in labels)
        for term in pods.node_affinity
    ]
    return "" if any(met) or not met else "affinity"


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def _meets(value: str, wanted: LabelSelectorRequirement) -> bool:
    """Does a label that is there meet an expression?"""
    match wanted.operator:
        case "In":
            return value in wanted.values
        case "NotIn":
            return value not in wanted.values
        case "Gt" | "Lt":
            most = int(wanted.values[0])
            return value.isdigit() and (int(value) > most if wanted.operator == "Gt" else int(value) < most)
    return wanted.operator == "Exists"


MORE: tuple[type[Observer], ...] = (
    SharedObserver,
    StaysReadyObserver,
    KeptObserver,
    EnoughObserver,
    UpdatesObserver,
    PlacedObserver,
    ExecutionObserver,
    MovesObserver,
)

__all__ = ["MORE"]
