"""From finished cycles to events: only what changed, and once (G7, law 4).

Order within a step: what settled, what was set aside, then per entry, in the order of the cycle, and last
what is blocked on its gates.

Of what is more than a step holds, the first entries are decided now: the cycle might have ended there, and
the next one goes on. What one entry preempts can be too much by itself, see `in_parts`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from sluice.core import step_size
from sluice.core.queueing.pending_queue import CohortQueues
from sluice.core.workload.admission_checks import checks_for
from sluice.core.workload.charges import named
from sluice.core.workload.pending_reasons import ADMISSION_GATED
from sluice.core.workload.reasons import FLAVOR_MIGRATION
from sluice.core.world.model import World
from sluice.core.world.variants import looked_at_before, migration_message
from sluice.core.world.workload_slices import replacement
from sluice.events import scheduler
from sluice.events.base import Event, WorkloadKey

from .cycle import Cycle
from .entry import Entry, Outcome
from .pending_preemptions import in_parts, preempt

_SET_ASIDE = (Outcome.PARKED, Outcome.ASIDE, Outcome.GATED)

_EACH: Final = 8192
"""More bytes than anything has that `_weight` counts as one."""

_Parked = dict[tuple[str, str, bool, bool, bool, bool], tuple[list[WorkloadKey], int]]


def decisions(world: World, cycles: Sequence[tuple[CohortQueues, Cycle]]) -> list[Event]:
    """Return the events of one decision, over the cycles of all trees that had something to decide."""
    whole = sum(len(cycle.entries) + 1 for _, cycle in cycles)
    events = _of_first(world, cycles, whole)
    if _weight(cycles) * _EACH <= step_size.MOST or step_size.fits(events):
        return events

    def too_much(n: int) -> bool:
        return not step_size.fits(_of_first(world, cycles, n + 1, cut=True))

    count = bisect_left(range(whole), True, key=too_much)
    is_news = any(tree.dirty for tree, _ in cycles)
    for taken in range(count, whole + 1):
        found = _of_first(world, cycles, taken, cut=True)
        settled = [event for event in found if isinstance(event, scheduler.TreesSettled)]
        if len(found) > len(settled) or (settled and is_news):
            # Else a step said it before: now it is for the next entry, or it would be said for ever.
            return found if taken == count else [*settled, *in_parts(world, found[len(settled) :])]
    return events


def _weight(cycles: Sequence[tuple[CohortQueues, Cycle]]) -> int:
    """Return how many things are said, each of which takes less than `_EACH` bytes.

    They are names, victims with their messages, amounts of one resource in one of at most eight pod sets, and
    pages of a reason. Counting them is much faster than to measure every decision.
    """
    return sum(
        1
        + len(entry.victims)
        + len(entry.proposal.targets)
        + 8 * len(entry.proposal.usage)
        + (len(entry.message) >> 12)
        for _, cycle in cycles
        for entry in cycle.entries
    ) + sum(1 + len(cycle.open) for _, cycle in cycles)


def _of_first(
    world: World, cycles: Sequence[tuple[CohortQueues, Cycle]], count: int, *, cut: bool = False
) -> list[Event]:
    """Return the events of the first *count* entries; that a tree has settled counts as one more of it.

    `cut`: it is not all. Then those whose search goes on come behind the others, and their tree has settled
    before: who searches in a tree that has not settled begins anew each time, and the others would not be
    told anything.
    """
    parked: _Parked = {}
    events: list[Event] = []
    evicted: set[WorkloadKey] = set()
    whole: list[tuple[CohortQueues, Cycle, Sequence[Entry]]] = []
    for tree, cycle in cycles:
        entries = sorted(cycle.entries, key=_searches) if cut else cycle.entries
        settles_after = sum(not _searches(entry) for entry in entries) if cut else len(entries)
        taken = count if count <= settles_after else count - 1
        progress = False
        for entry in entries[:taken]:
            progress |= _decide(world, tree, entry, events, parked, evicted)
        if count > settles_after:
            whole.append((tree, cycle, entries[taken:]))
        count -= len(entries) + 1
        if count < 0:
            break
        if not progress and not cycle.leads_on():
            _give_up_skipped(tree, cycle, parked)
            cycle.open.clear()
    first: list[Event] = []
    settled = _settled(whole)
    if settled is not None:
        first.append(settled)
    last: list[Event] = []
    for (reason, message, aside, reserves, circling, barred), (keys, cause) in parked.items():
        # What is blocked leaves its class for that of the blocked ones, which is what is parked then.
        (last if reason == ADMISSION_GATED else first).append(
            scheduler.WorkloadsParked(
                cause=cause,
                workloads=keys,
                reason=reason,
                message=message,
                aside=aside,
                reserves=reserves,
                circling=circling,
                barred=barred,
            )
        )
    return first + events + last


def _searches(entry: Entry) -> bool:
    """Does the search for a flavor go on, or has it just come to its end?"""
    return entry.outcome is Outcome.SCANNING or (
        entry.outcome is Outcome.PARKED and entry.peers.resumes_at() is not None
    )


def _decide(
    world: World,
    tree: CohortQueues,
    entry: Entry,
    events: list[Event],
    parked: _Parked,
    evicted: set[WorkloadKey],
) -> bool:
    """Add the events of one entry; return whether there are any."""
    outcome = entry.outcome
    cause = cause_of(tree, entry)
    workload = entry.workload
    if outcome is Outcome.PROMISED:
        events += _promise(world, entry, cause, evicted)
        return True
    if outcome is Outcome.ADMITTED:
        pod_sets = entry.proposal.pod_sets
        events.append(
            scheduler.QuotaReserved(
                cause=cause,
                workload=workload.key,
                cluster_queue=entry.cq.name,
                pod_sets=pod_sets,
                observed_generation=workload.generation,
            )
        )
        if entry.beside:
            _migrate(entry, cause, events, evicted)
        elif not checks_for(entry.cq.spec, pod_sets):
            events.append(scheduler.Admitted(cause=cause, workload=workload.key))
            if workload.record.replaces is not None:
                events += replacement(world, workload, cause)
        return True
    if outcome is Outcome.PREEMPTING:
        return _preempt(world, entry, cause, events, evicted)
    if outcome in _SET_ASIDE:
        return _set_aside(world, entry, cause, events, parked)
    if outcome is Outcome.DISPLACED:
        events.append(scheduler.PreemptionWaitEnded(cause=cause, workload=workload.key))
        return True
    if outcome is Outcome.SCANNING:
        events.append(
            scheduler.FlavorScanAdvanced(
                cause=cause, workload=workload.key, tried=entry.proposal.assignment.scan
            )
        )
        return True
    return False


def cause_of(tree: CohortQueues, entry: Entry) -> int:
    """Return the newest of what concerned the workload and what gave those who wait in its tree a chance.

    Who has come by himself to a tree that was at rest, owes nothing to what was freed there before.
    """
    peers, by = entry.peers, entry.displaced_by
    if by is not None:
        return max(entry.workload.changed_by, by.changed_by)
    if tree.fresh or peers.parked or peers.waiting is not None:
        return max(entry.workload.changed_by, tree.cause)
    return entry.workload.changed_by


def _promise(world: World, entry: Entry, cause: int, evicted: set[WorkloadKey]) -> list[Event]:
    """AC6: whom it would preempt runs on; whoever was only promised quota loses it."""
    reserved_only = [target for target in entry.proposal.targets if target.workload.preemptions]
    events = preempt(world, entry.workload, entry.cq, reserved_only, cause, evicted)
    events.append(
        scheduler.QuotaReserved(
            cause=cause,
            workload=entry.workload.key,
            cluster_queue=entry.cq.name,
            pod_sets=entry.proposal.pod_sets,
            preemptions_pending=True,
            pending_victims=sorted(victim.key for victim in entry.victims),
            observed_generation=entry.workload.generation,
        )
    )
    return events


def _migrate(entry: Entry, cause: int, events: list[Event], evicted: set[WorkloadKey]) -> None:
    """CA10: the sibling that runs is told to stop; the variant is admitted when it has (`transitions`)."""
    sibling = entry.migrates
    if sibling is not None and sibling.key not in evicted:
        evicted.add(sibling.key)
        message = migration_message(entry.workload)
        events.append(
            scheduler.Evicted(cause=cause, workload=sibling.key, reason=FLAVOR_MIGRATION, message=message)
        )


def _preempt(world: World, entry: Entry, cause: int, events: list[Event], evicted: set[WorkloadKey]) -> bool:
    workload = entry.workload
    preempted = preempt(world, workload, entry.cq, entry.proposal.targets, cause, evicted)
    events += preempted
    issued = bool(preempted)
    waiting = entry.peers.waiting
    victims = sorted({victim.key for victim in entry.victims})
    if (
        not issued
        and waiting is not None
        and not waiting.recheck
        and sorted(waiting.victims) == victims
        and entry.peers.reason == entry.reason
    ):
        return False
    events.append(
        scheduler.PreemptionIssued(
            cause=cause,
            workload=workload.key,
            victims=victims,
            usage=named(entry.proposal.needed()),
            borrowing=entry.proposal.assignment.borrowing,
            reason=entry.reason,
            message=entry.message,
            flavors=_flavors_of_pod_sets(entry),
        )
    )
    return True


def _flavors_of_pod_sets(entry: Entry) -> dict[str, dict[str, str]]:
    """Return what the amounts alone do not tell: which pod set is to have which flavors."""
    assignment = entry.proposal.assignment
    if len(assignment.pod_sets) == 1 or all(len(group.flavors) == 1 for group in entry.cq.groups):
        return {}
    return assignment.pinned()


def _set_aside(world: World, entry: Entry, cause: int, events: list[Event], parked: _Parked) -> bool:
    peers = entry.peers
    aside = entry.outcome is Outcome.ASIDE
    gated = entry.outcome is Outcome.GATED and not entry.workload.blocked_on_gates
    if gated:
        events.append(
            scheduler.BlockedOnPreemptionGates(
                cause=cause,
                workload=entry.workload.key,
                message=entry.message,
                after=looked_at_before(world, entry.workload),
            )
        )
    elif (
        peers.parked
        and peers.reason == entry.reason
        and peers.reserves == entry.reserves
        and peers.aside == aside
        and peers.circling == entry.proposal.circling
    ):
        return False
    _park(parked, entry, cause, aside=aside)
    return True


def _park(parked: _Parked, entry: Entry, cause: int, *, aside: bool = False) -> None:
    key = (entry.reason, entry.message, aside, entry.reserves, entry.proposal.circling, entry.barred)
    keys, newest = parked.get(key, ([], 0))
    keys.append(entry.workload.key)
    parked[key] = (keys, max(newest, cause))


def _give_up_skipped(tree: CohortQueues, cycle: Cycle, parked: _Parked) -> None:
    """Set skipped entries aside when nothing else happened, or they would be tried for ever."""
    for entry in cycle.entries:
        if entry.outcome is Outcome.SKIPPED and not (
            entry.peers.parked and entry.peers.reason == entry.reason
        ):
            _park(parked, entry, cause_of(tree, entry))


def _settled(cycles: Sequence[tuple[CohortQueues, Cycle, Sequence[Entry]]]) -> scheduler.TreesSettled | None:
    """Return that trees have settled, but for the queues of the entries that are left for the next step."""
    cohorts: list[str] = []
    queues: list[str] = []
    still_open: list[str] = []
    cause = last = 0
    for tree, cycle, left in cycles:
        if tree.dirty or tree.open or cycle.open:
            (cohorts if tree.is_cohort else queues).append(tree.name)
            names = [queue.name for queue in cycle.open]
            still_open += sorted({*names, *(entry.queue.name for entry in left)}) if left else names
            cause = max(cause, tree.cause if tree.fresh else 0)
            last = max(last, tree.cause)
    if not cohorts and not queues:
        return None
    # Nothing was freed: the next in line was looked at for what has happened to those before it.
    cause = cause or max(
        (cause_of(tree, e) for tree, cycle, _ in cycles for e in cycle.entries), default=last
    )
    return scheduler.TreesSettled(cause=cause, cohorts=cohorts, cluster_queues=queues, open=still_open)


__all__ = ["decisions"]
