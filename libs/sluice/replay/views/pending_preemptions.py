"""Why somebody waits because of pending preemptions (AC6): a reservation whose victims still run.

Three can ask: who has such a reservation, whose preemption is pending, and who waits for what is promised.
"""

from collections.abc import Iterator, Mapping
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
class Claim:
    """A reservation that waits for others to go: its quota is charged, and so is theirs."""

    claimant: str
    cluster_queue: str
    usage: dict[str, str]
    victims: list[str]
    state: str
    """Pending: the victims run on, and may be chosen anew. Issued: they are told to stop."""
    checks: list[str]
    """Pending: the checks that must be Ready, or ask for it, before anybody is preempted."""


def claim_of(world: World, claimant: Workload) -> Claim:
    return Claim(
        claimant=claimant.key,
        cluster_queue=claimant.cluster_queue,
        usage={f"{f}/{r}": format_value(r, n) for (f, r), n in sorted(claimant.usage.items())},
        victims=sorted(claimant.victims),
        state=claimant.preemptions,
        checks=holding_back(world, claimant) if claimant.preemptions == PENDING else [],
    )


def holding_back(world: World, claimant: Workload) -> list[str]:
    """Return the checks whose policy lets nobody be preempted before they allow it."""
    queue = world.cluster_queues.get(claimant.cluster_queue)
    if queue is None or claimant.checks == READY or claimant.preemptions_allowed:
        return []
    return preemption_rules.holding_back(world, queue.spec, claimant.assignment or ())


def claims_in(state: SchedulerState, cq: ClusterQueue) -> Iterator[Workload]:
    """Yield the claimants of the queue's cohort tree, by queue and age."""
    world, root = state.world, cq.node.root()
    for name in sorted(world.claims.by_queue):
        queue = world.cluster_queues.get(name)
        if queue is not None and queue.node.root() is root:
            yield from sorted(world.claims.by_queue[name].values(), key=lambda w: w.uid)


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
    state: SchedulerState, cq: ClusterQueue, claimants: list[Workload]
) -> Mapping[FlavorResource, int]:
    """Return what the queue may still have of what is promised: now, and when the victims have gone.

    Nothing may be promised twice, and nobody starts on quota that is in use; so the lesser of both.
    """
    world = state.world
    wanted = sorted({fr for claimant in claimants for fr, amount in claimant.usage.items() if amount})
    victims = [world.workloads[key] for claimant in claimants for key in sorted(claimant.victims)]
    with Trial(world) as planned:
        for victim in victims:
            planned.remove(victim)
        later = {fr: cq.node.available(fr) for fr in wanted}
    with Trial(world) as real:
        for claimant in claimants:
            real.remove(claimant)
        now = {fr: cq.node.available(fr) for fr in wanted}
    return {fr: min(now[fr], later[fr]) for fr in wanted}


def at_hand(
    state: SchedulerState, workload: Workload, cq: ClusterQueue, fr: FlavorResource, available: int
) -> int:
    """Return what the workload may have of what its queue has *available*: all, unless it must not borrow."""
    if "cannot-borrow" not in imposed(state, workload.record):
        return available
    return min(available, cq.node.nominal(fr) - cq.node.used(fr))


def used(cq: ClusterQueue, claimants: list[Workload], fr: FlavorResource) -> int:
    """Return what of the queue's quota is in use by those who run, or may; promises left out."""
    own = sum(w.usage.get(fr, 0) for w in claimants if w.cluster_queue == cq.name)
    return cq.node.used(fr) - own


def reservation_words(world: World, workload: Workload) -> str:
    """Return what the reservation waits for beside its checks, "" for nothing."""
    if not workload.preemptions:
        return ""
    victims = ", ".join(sorted(workload.victims))
    if workload.preemptions == ISSUED:
        return f"It waits for preempted workloads to stop: {victims}."
    checks = holding_back(world, workload)
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
    for claimant in sorted(world.claims.claimants_of(workload.key), key=lambda w: w.uid):
        checks = holding_back(world, claimant)
        if claimant.preemptions == PENDING:
            when = f" when {_all(checks, 'allows', 'allow')} it" if checks else ""
            found.append(f"It is to be preempted by {claimant.key}{when}.")
    return " ".join(found)


def _all(checks: list[str], one: str, several: str) -> str:
    return f"{' and '.join(checks)} {several if checks[1:] else one}"


def claim_lines(claims: list[Claim]) -> Iterator[str]:
    """Yield one line per claim, for people."""
    for claim in claims:
        usage = ", ".join(f"{amount} {fr}" for fr, amount in claim.usage.items())
        victims = ", ".join(claim.victims) or "others, not chosen yet,"
        until = f" once {_all(claim.checks, 'allows', 'allow')} it" if claim.checks else ""
        how = f"is to preempt {victims}{until}" if claim.state == PENDING else f"waits for {victims} to stop"
        yield f"{claim.claimant} (in {claim.cluster_queue}) has {usage} reserved, and {how}"


__all__ = [
    "Claim",
    "at_hand",
    "available",
    "checks_wait",
    "claim_lines",
    "claim_of",
    "claims_in",
    "imposed",
    "leaving_sibling",
    "reservation_words",
    "used",
    "victim_words",
]
