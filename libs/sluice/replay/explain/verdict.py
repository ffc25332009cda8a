"""Verdict on one workload as things are, and the last one of the scheduler."""

from collections.abc import Collection, Sequence
from copy import copy

from sluice.core.cycle.entry import Entry
from sluice.core.cycle.nomination import nominate
from sluice.core.flavors.assignment import Mode
from sluice.core.queueing.pending_queue import PendingQueue, Preemptor
from sluice.core.quota.tree import FlavorResource
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.pending_reasons import (
    ADMISSION_GATED,
    NO_MATCHING_FLAVOR,
    PENDING_EVALUATION,
    WAITING_FOR_PODS_READY,
    WAITING_FOR_PREEMPTED,
    WAITING_FOR_QUOTA,
)
from sluice.core.world.activity import may_be_so_still
from sluice.core.world.model import ClusterQueue
from sluice.core.world.variants import SAME_FLAVORS, no_allowed_flavor
from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey

from .report import Report
from .stopping import job_of
from .suggestions_outside import pods_ready

SHOWN = 3
"""Preemptors named for whom something is kept, and victims of theirs."""


def recorded(state: SchedulerState, workload: Workload) -> tuple[str, str]:
    """Return (reason, message) of what the scheduler said last, ("", "") where that cannot be so any more."""
    said = workload.peers
    if said is None or not may_be_so_still(said.reason, state.world.config, lambda: bool(state.not_ready)):
        return "", ""
    if said.waiting is not None and said.waiting not in said.queue.holding():
        return "", ""  # it is a StrictFIFO queue, and somebody has come before it
    return said.reason, said.message


def _waits_for(workload: Workload, entry: Entry) -> list[WorkloadKey]:
    """Return who has to stop still for a preemptor that waits: its own victims.

    Looked at anew it may choose others: those that are told to stop for somebody else, too.
    """
    waiting = workload.peers.waiting if workload.peers is not None else None
    if waiting is None:
        return []
    chosen = (target.workload.key for target in entry.proposal.targets)
    return [*dict.fromkeys(key for key in (*chosen, *waiting.victims) if key in waiting.victims)]


def _kept_for(queue: PendingQueue, workload: Workload) -> list[Preemptor]:
    """Return the preemptors of other jobs for whom some of the tree is kept until their victims go."""
    queues = queue.tree.waiting.values() if queue.tree is not None else ()
    found = [one for each in queues for one in each.holding() if job_of(one.workload) != job_of(workload)]
    return sorted(found, key=lambda one: one.workload.uid)


def _kept_words(kept: Sequence[Preemptor], usage: Collection[FlavorResource]) -> str:
    """Return for whom some of *usage* is kept, and who is to stop for them; "" for nobody."""
    own = [one for one in kept if any(fr in one.usage for fr in usage)]
    victims = [*dict.fromkeys(key for one in own for key in one.victims)]
    stop = f", until {_some(victims)} {'have' if victims[1:] else 'has'} stopped" if victims else ""
    return _some([one.workload.key for one in own]) + stop


def withholding(
    state: SchedulerState, workload: Workload, usage: Collection[FlavorResource] | None = None
) -> list[PendingQueue]:
    """Return the StrictFIFO queues of its cohort that withhold what they may not take back for their heads.

    Of *usage*, where that is given.
    """
    queue = state.pending.queues.get(workload.cluster_queue)
    found = []
    for name in sorted(queue.tree.members) if queue is not None and queue.tree is not None else ():
        other = state.pending.queues[name]
        blocker = other.withheld_for
        if blocker is None or other is queue:
            continue
        needs = [fr for fr, _ in blocker.least]
        if usage is None or not needs or any(fr in usage for fr in needs):
            found.append(other)
    return found


def _for_whom(
    state: SchedulerState, workload: Workload, kept: Sequence[Preemptor], usage: Collection[FlavorResource]
) -> str:
    """Return for whom what it needs is there: who waits for victims, or heads of queues; "" for nobody."""
    if words := _kept_words(kept, usage):
        return f"kept for {words}"
    words = _withheld_words(state, withholding(state, workload, usage))
    return f"withheld for {words}" if words else ""


def _withheld_words(state: SchedulerState, queues: Sequence[PendingQueue]) -> str:
    """Return for which heads it is withheld, and why their queues do not lend it; "" for none."""
    words = []
    for queue in queues:
        policy = state.world.cluster_queues[queue.name].spec.preemption
        reclaim = (policy.reclaim_within_cohort if policy else "") or "Never"
        blocker = queue.withheld_for
        assert blocker is not None
        words.append(
            f"{blocker.head().key}, the head of {queue.name}, which is StrictFIFO and might not get back "
            f"what it lends (reclaimWithinCohort is {reclaim})"
        )
    return " and for ".join(words)


def _some(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + f" and {rest} more" * (rest > 0)


def _strict_head(queue: PendingQueue, workload: Workload) -> WorkloadKey | None:
    """Return whose turn it is in a StrictFIFO queue, None where it is its own, or anybody's."""
    first = queue.first_strict() if queue.strict else None
    head = first.head() if first is not None else workload
    return head.key if head.rank < workload.rank else None


def _of_fit(
    state: SchedulerState, entry: Entry, report: Report, kept: Sequence[Preemptor], it: str
) -> tuple[str, str]:
    """Return (reason, message) of a workload for which there is room, were nothing but quota in its way."""
    workload = entry.workload
    if entry.moves_nowhere(state.world):
        return WAITING_FOR_QUOTA, f"{SAME_FLAVORS}."
    said_reason, _ = recorded(state, workload)
    if said_reason == WAITING_FOR_QUOTA and (
        whom := _for_whom(state, workload, kept, entry.proposal.needed())
    ):
        # The tree is charged for who is in it: what is kept for those who come is not.
        return said_reason, f"{it} would fit by itself, but what it needs is {whom}."
    ahead = f"; {report.ahead[0]} comes before it" if report.ahead else ""
    return PENDING_EVALUATION, f"{it} would fit by itself, and has not had its turn{ahead}."


def look(state: SchedulerState, workload: Workload, cq: ClusterQueue, report: Report) -> str:
    """Look at it as its turn in a cycle would: the blocking rule as things are.

    Return what keeps it from preempting, beside the rules for preemption: its gate, if it would were it open.
    """
    said_reason, said_message = recorded(state, workload)
    queue = state.pending.queues[workload.cluster_queue]
    it = "It"
    if ahead_of_all := _strict_head(queue, workload):
        # The reason of its status: nobody looks at it (any more), whatever would be said of it now.
        never = no_allowed_flavor(state.world.config, cq.spec, cq.name, workload.record)
        report.rule = said_reason or (NO_MATCHING_FLAVOR if never else PENDING_EVALUATION)
        it = workload.key
        report.message = f"The queue is StrictFIFO, and {ahead_of_all} is at its head."
    entry = Entry(workload, queue, cq)
    # From the first flavor on. Where an earlier look stopped, another pod set may have had the next flavor
    # already, and what is said from there on is the sum of both.
    entry.peers = copy(entry.peers)
    entry.peers.scan = None
    asked = nominate(state.world, entry, may_defer=False)
    found = entry.proposal.assignment if asked else None
    but = "" if asked else entry.message[:1].lower() + entry.message[1:]
    reason = (found.no_fit_reason if found is not None else entry.reason) or said_reason
    kept = _kept_for(queue, workload)
    if waits := _waits_for(workload, entry):
        reason, message = WAITING_FOR_PREEMPTED, f"{it} needs the preemption of {', '.join(waits)}."
    elif entry.proposal.targets and said_message and kept:
        # By itself it would have victims that others have, and what is kept for those: the scheduler knew.
        reason, message = said_reason, f"{it} by itself: {said_message}" if report.rule else said_message
    elif entry.proposal.targets:
        victims = ", ".join(t.workload.key for t in entry.proposal.targets)
        reason = reason or WAITING_FOR_PREEMPTED
        message = f"{it} needs the preemption of {victims}."
        gates = [g for g in workload.record.preemption_gates if g not in workload.open_gates]
        if gates:
            reason, message = ADMISSION_GATED, f"{message} Its gate {gates[0]} is closed."
            but = f"the pending workload's gate {gates[0]} is closed"
    elif found is not None and found.mode is Mode.FIT and (ready := list(pods_ready(state))):
        reason = WAITING_FOR_PODS_READY
        message = f"{it} would fit by itself, and waits for {ready[0][1]}."
    elif found is not None and found.mode is Mode.FIT:
        reason, message = _of_fit(state, entry, report, kept, it)
    else:
        message = (found.message if found is not None else entry.message) or said_message
        message = f"{it} by itself: {message}" if report.rule and message else message
    if report.rule:
        report.message += f" {message}" if message else ""
        return but
    report.rule = reason or PENDING_EVALUATION
    report.message = message
    return but
