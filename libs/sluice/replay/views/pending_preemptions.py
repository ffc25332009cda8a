"""Waits for pending preemptions (AC6): reservations whose targets still run.

Three can ask: who has such a reservation, whose preemption is pending, and who waits for what is promised.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluice.api.quantity import format_value
from sluice.core.quota.tree import FlavorResource
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.admission_checks import READY, checks_for
from sluice.core.workload.admission_constraints import may_borrow, may_preempt
from sluice.core.world import preemption_rules
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.pending_preemptions import ISSUED, PENDING
from sluice.core.world.reservations import Trial
from sluice.core.world.workload import Workload
from sluice.events.slices import WorkloadRecord


def imposed(state: SchedulerState, record: WorkloadRecord) -> list[str]:
    """Return the constraints that a job imposes on itself, while their gate is on (AX1)."""
    config = state.world.config
    named = (("cannot-borrow", may_borrow(config, record)), ("cannot-preempt", may_preempt(config, record)))
    return [name for name, allowed in named if not allowed]


@dataclass
class PendingPreemption:
    """A reservation that waits for others to go: its quota is charged, and so is theirs."""

    claimant: str
    cluster_queue: str
    usage: dict[str, str]
    victims: list[str]
    state: str
    """Pending: the victims run on, and may be chosen anew. Issued: they are told to stop."""
    checks: list[str]
    """Pending: the checks that must be Ready, or ask for it, before anybody is preempted."""


def pending_preemption_of(world: World, preemptor: Workload) -> PendingPreemption:
    return PendingPreemption(
        claimant=preemptor.key,
        cluster_queue=preemptor.cluster_queue,
        usage={f"{f}/{r}": format_value(r, n) for (f, r), n in sorted(preemptor.usage.items())},
        victims=sorted(preemptor.victims),
        state=preemptor.preemptions,
        checks=_holding_back(world, preemptor) if preemptor.preemptions == PENDING else [],
    )


def _holding_back(world: World, preemptor: Workload) -> list[str]:
    """Return the checks whose policy lets nobody be preempted before they allow it."""
    queue = world.cluster_queues.get(preemptor.cluster_queue)
    if queue is None or preemptor.checks == READY or preemptor.preemptions_allowed:
        return []
    return preemption_rules.holding_back(world, queue.spec, preemptor.assignment or ())


def preemptors_in(state: SchedulerState, cq: ClusterQueue) -> Iterator[Workload]:
    """Yield the preemptors of the queue's cohort tree, by queue and age."""
    world, root = state.world, cq.node.root()
    for name in sorted(world.pending_preemptions.by_queue):
        queue = world.cluster_queues.get(name)
        if queue is not None and queue.node.root() is root:
            yield from sorted(world.pending_preemptions.by_queue[name].values(), key=lambda w: w.uid)


def checks_wait(world: World, workload: Workload) -> bool:
    """Tell whether checks of its reservation are still to pass."""
    if workload.checks == READY or workload.assignment is None:
        return False
    queue = world.cluster_queues.get(workload.cluster_queue)
    return queue is None or bool(checks_for(queue.spec, workload.assignment))


def leaving_sibling(world: World, workload: Workload) -> Workload | None:
    """Return the variant that has been told to make room for this one, and holds quota still (CA10)."""
    family = world.families.get(workload.record.parent) if workload.record.parent is not None else None
    for sibling in (family or {}).values():
        if sibling is not workload and sibling.assignment is not None and sibling.evicted_at is not None:
            return sibling
    return None


def available(
    state: SchedulerState, cq: ClusterQueue, preemptors: list[Workload]
) -> Mapping[FlavorResource, int]:
    """Return what the queue may still have of what is promised: now, and when the victims have gone.

    Nothing may be promised twice, and nobody starts on quota that is in use; so the lesser of both.
    """
    world = state.world
    wanted = sorted({fr for preemptor in preemptors for fr, amount in preemptor.usage.items() if amount})
    victims = [world.workloads[key] for preemptor in preemptors for key in sorted(preemptor.victims)]
    with Trial(world) as planned:
        for victim in victims:
            planned.remove(victim)
        later = {fr: cq.node.available(fr) for fr in wanted}
    with Trial(world) as real:
        for preemptor in preemptors:
            real.remove(preemptor)
        now = {fr: cq.node.available(fr) for fr in wanted}
    return {fr: min(now[fr], later[fr]) for fr in wanted}


def at_hand(
    state: SchedulerState, workload: Workload, cq: ClusterQueue, fr: FlavorResource, available: int
) -> int:
    """Return what the workload may have of what its queue has *available*: all, unless it must not borrow."""
    if "cannot-borrow" not in imposed(state, workload.record):
        return available
    return min(available, cq.node.nominal(fr) - cq.node.used(fr))


def used(cq: ClusterQueue, preemptors: list[Workload], fr: FlavorResource) -> int:
    """Return what of the queue's quota is in use by those who run, or may; promises left out."""
    own = sum(w.usage.get(fr, 0) for w in preemptors if w.cluster_queue == cq.name)
    return cq.node.used(fr) - own


def reservation_words(world: World, workload: Workload) -> str:
    """Return what the reservation waits for beside its checks, "" for nothing."""
    if not workload.preemptions:
        return ""
    victims = ", ".join(sorted(workload.victims))
    if workload.preemptions == ISSUED:
        return f"It waits for preempted workloads to stop: {victims}."
    checks = _holding_back(world, workload)
    if not checks:
        whom = f": {victims}" if victims else ""
        return f"It may preempt now, and will with the next decisions{whom}."
    asked = f"{_all(checks, 'says', 'say')} Ready, or {'one asks' if checks[1:] else 'asks'} for it"
    if not victims:
        # Those who were chosen have ended; it needs somebody's quota all the same.
        return f"Whom to preempt is chosen when {asked} (reason PreemptionRequired)."
    return (
        f"The preemption of {victims} is pending until {asked} (reason "
        f"PreemptionRequired); until then nobody is stopped."
    )


def victim_words(world: World, workload: Workload) -> str:
    """Return who is going to preempt it, "" when nobody is."""
    found = []
    for preemptor in sorted(world.pending_preemptions.preemptors_of(workload.key), key=lambda w: w.uid):
        checks = _holding_back(world, preemptor)
        if preemptor.preemptions == PENDING:
            when = f" when {_all(checks, 'allows', 'allow')} it" if checks else ""
            found.append(f"It is to be preempted by {preemptor.key}{when}.")
    return " ".join(found)


def _all(checks: list[str], one: str, several: str) -> str:
    return f"{' and '.join(checks)} {several if checks[1:] else one}"


def pending_preemption_lines(found: Sequence[PendingPreemption]) -> Iterator[str]:
    """Yield one line for each, for people."""
    for one in found:
        usage = ", ".join(f"{amount} {fr}" for fr, amount in one.usage.items())
        victims = ", ".join(one.victims) or "others, not chosen yet,"
        until = f" once {_all(one.checks, 'allows', 'allow')} it" if one.checks else ""
        how = f"is to preempt {victims}{until}" if one.state == PENDING else f"waits for {victims} to stop"
        yield f"{one.claimant} (in {one.cluster_queue}) has {usage} reserved, and {how}"
