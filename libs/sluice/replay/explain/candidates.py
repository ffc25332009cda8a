"""Holders of what a pending workload is short of: may they be preempted, and if not, what keeps them (DB2).

Who is a candidate, whether preempting makes room, and whether anybody is asked at all, the scheduler's own
functions say; here are only the words for it. What is named is what keeps the holder: a closed gate only
where the workload would preempt if it were open.
"""

from collections.abc import Iterator, Sequence

from sluice.api.quantity import format_value
from sluice.core.flavors.plan import asks_nobody, plan_of
from sluice.core.preemption.targets import (
    FINAL_SHARE,
    INITIAL_SHARE,
    ShareComparison,
    get_targets,
    possible_victims,
    refusals,
)
from sluice.core.quota.fair_share import Share
from sluice.core.quota.tree import (
    WEIGHT_SCALE,
    FlavorResource,
    Node,
    find_height_of_lowest_subtree_that_fits,
)
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.model import ClusterQueue
from sluice.core.world.preemption_history import actor
from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey
from sluice.replay.views.pending_preemptions import imposed

from .quota import SHOWN, wanted_beyond
from .report import Candidate, Numbers, Report

NOT_ENOUGH = "the policy lets it, but all that may be preempted would not make room"


def add_candidates(
    state: SchedulerState, workload: Workload, cq: ClusterQueue, report: Report, *, but: str
) -> None:
    """Name those who hold what is short; *but*: what of its own keeps the workload from preempting, or ""."""
    short = tuple(
        dict.fromkeys((n.flavor, n.resource) for n in report.numbers if n.short != "0" and not n.obstacle)
    )
    if not short:
        return
    # What must not borrow is short of its queue's own quota; others matter only if they have borrowed that.
    lent = not workload.record.cannot_borrow or any(
        wanted_beyond(n) > cq.node.available((n.flavor, n.resource))
        for n in report.numbers
        if (n.flavor, n.resource) in short
    )
    judge = _Judge(state, workload, cq, _wanted(report.numbers), short)
    found: list[Candidate] = []
    for queue in _queues_of_tree(state, cq) if lent else [cq]:
        for holder in queue.workloads.values():
            held = [fr for fr in short if fr in holder.usage]
            if not held or holder.key == workload.record.replaces:
                continue
            why = judge.why_not(queue, holder, held)
            if not why and but:
                why = f"the policy lets it, but {but}"
            usage = {f"{f}/{r}": format_value(r, holder.usage[f, r]) for f, r in held}
            found.append(Candidate(holder.key, queue.name, holder.priority, usage, not why, why))
    found.sort(key=lambda c: (not c.allowed, c.cluster_queue != cq.name, c.priority, c.workload))
    kinds: dict[tuple[bool, str, str], int] = {}
    for candidate in found:
        kind = (candidate.allowed, candidate.cluster_queue, candidate.why)
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= SHOWN and len(report.candidates) < 10 * SHOWN:
            report.candidates.append(candidate)
    report.candidates_left_out = len(found) - len(report.candidates)


def _wanted(numbers: Sequence[Numbers]) -> dict[FlavorResource, int]:
    wanted: dict[FlavorResource, int] = {}
    for n in numbers:
        fr = (n.flavor, n.resource)
        wanted[fr] = wanted.get(fr, 0) + wanted_beyond(n)
    return wanted


def _queues_of_tree(state: SchedulerState, cq: ClusterQueue) -> Iterator[ClusterQueue]:
    todo = [cq.node.root()]
    while todo:
        node = todo.pop()
        if node.is_cluster_queue:
            yield state.world.cluster_queues[node.name]
        todo += reversed(node.children)


class _Judge:
    """What the scheduler says of preempting for one workload, asked once for each flavor and resource."""

    def __init__(
        self,
        state: SchedulerState,
        workload: Workload,
        cq: ClusterQueue,
        wanted: dict[FlavorResource, int],
        short: Sequence[FlavorResource],
    ) -> None:
        self._state, self._workload, self._cq = state, workload, cq
        world = state.world
        self._may_go: dict[FlavorResource, frozenset[WorkloadKey]] = {}
        self._helps: dict[FlavorResource, bool] = {}
        self._shares: dict[FlavorResource, dict[WorkloadKey, str]] = {}
        self._borrows: dict[FlavorResource, str] = {}
        free = plan_of(cq).may_preempt_borrowing(fair_sharing=world.config.fair_sharing.enable)
        for fr in short:
            usage = {fr: wanted[fr]}
            self._may_go[fr] = possible_victims(world, workload, usage, (fr,))
            self._helps[fr] = bool(get_targets(world, workload, usage, (fr,)))
            kept = refusals(world, workload, usage, (fr,))
            self._shares[fr] = {key: _share_words(list(told.values())) for key, told in kept.items()}
            nominal = cq.node.nominal(fr)
            _, reclaims = find_height_of_lowest_subtree_that_fits(cq.node, fr, wanted[fr])
            if asks_nobody(nominal, wanted[fr], may_reclaim=reclaims, may_preempt_borrowing=free):
                own, asked = format_value(fr[1], nominal), format_value(fr[1], wanted[fr])
                text = f"it would borrow, too ({asked} {fr[1]} asked for, {own} of {cq.name}'s own)"
                self._borrows[fr] = f"{text}, and borrowWithinCohort is Never"

    def why_not(self, queue: ClusterQueue, holder: Workload, held: Sequence[FlavorResource]) -> str:
        """Return the rule that keeps *holder*, which has *held* of what is short; "" if none does."""
        record = self._workload.record
        if queue is not self._cq and not any(self._over(queue.node, fr) for fr in held):
            return self._rule(queue, holder, held)  # whatever the workload imposes on itself
        if "cannot-preempt" in imposed(self._state, record):
            return "the pending workload must not preempt (cannot-preempt)"
        if record.parent is not None and record.parent == holder.record.parent:
            return "it is a variant of the same job, which moves instead of being preempted"
        if not any(holder.key in self._may_go[fr] for fr in held):
            return self._rule(queue, holder, held)
        if all(fr in self._borrows for fr in held):
            return self._borrows[held[0]]
        if all(holder.key in self._shares[fr] for fr in held):
            return self._shares[held[0]][holder.key]
        if not any(self._helps[fr] for fr in held):
            return NOT_ENOUGH
        return ""

    def _rule(self, queue: ClusterQueue, holder: Workload, held: Sequence[FlavorResource]) -> str:
        """Return the rule by which it is no candidate at all."""
        policy, cq, pending = self._cq.spec.preemption, self._cq, self._workload
        priority = f"its priority {holder.priority} is not below {pending.priority}"
        within = (policy.within_cluster_queue if policy else "") or "Never"
        reclaim = (policy.reclaim_within_cohort if policy else "") or "Never"
        if queue is cq:
            if within == "Never":
                return "withinClusterQueue is Never"
            if within == "LowerPriority" and holder.priority >= pending.priority:
                return f"withinClusterQueue is LowerPriority, and {priority}"
            if why := self._spared(holder):
                return why
            return "withinClusterQueue is LowerOrNewerEqualPriority, and it is neither lower nor newer"
        if reclaim == "Never":
            return "reclaimWithinCohort is Never"
        if not any(self._over(queue.node, fr) for fr in held):
            return f"{queue.name} is within its nominal quota of what is short"
        if reclaim == "LowerPriority" and holder.priority >= pending.priority:
            return f"reclaimWithinCohort is LowerPriority, and {priority}"
        if why := self._spared(holder):
            return why
        if all(fr in self._borrows for fr in held):
            return self._borrows[held[0]]
        between = self._keeps(queue, held)
        if between is not None:
            return f"{between.name} is within its own quota of what is short, and {queue.name} borrows in it"
        within_cohort = policy.borrow_within_cohort if policy is not None else None
        if within_cohort is not None and within_cohort.policy == "LowerPriority":
            most = within_cohort.max_priority_threshold
            bound = f" and up to {most}" if most is not None else ""
            return f"it would borrow, too, and borrowWithinCohort takes lower priorities{bound} only"
        return f"{cq.name} has its nominal quota of it in use already, and borrowWithinCohort is Never"

    @staticmethod
    def _over(node: Node, fr: FlavorResource) -> bool:
        return fr in node.borrowed

    def _keeps(self, queue: ClusterQueue, held: Sequence[FlavorResource]) -> Node | None:
        """Return the cohort between that uses no more than its own, so that nothing of it is the others'."""
        above = set()
        node: Node | None = self._cq.node
        while node is not None:
            above.add(node.path())
            node = node.parent
        node = queue.node.parent
        while node is not None and node.path() not in above:
            if not any(self._over(node, fr) for fr in held):
                return node
            node = node.parent
        return None

    def _spared(self, holder: Workload) -> str:
        circles = self._state.world.circles
        pending, held = actor(self._workload), actor(holder)
        if not circles or holder.evicted_at is not None or held not in circles.spared_by(pending):
            return ""
        if circles.has_preempted(held, pending):
            return "it has preempted the pending workload, directly or through others: that would be a circle"
        return "it was preempted for the pending workload again and again, and nothing came of it"


def _share_words(compared: Sequence[ShareComparison]) -> str:
    """Say which shares keep a holder whom the policy would let go, by each strategy that was asked (SC6)."""
    first = compared[0]
    if not first.strategy:
        whose = f"{_weighted(first.victim)} has a weighted share (DominantResourceShare) of 0"
        return f"its share keeps it: {whose} when those have gone whom the shares let go"
    said = ", and ".join(_strategy_words(each, first) for each in compared)
    return (
        f"its share keeps it: with this workload {_weighted(first.preemptor)} would have a weighted share "
        f"(DominantResourceShare) of {_amount(first.share)}, {said}"
    )


def _strategy_words(compared: ShareComparison, first: ShareComparison) -> str:
    """Say what a strategy has compared; *first*: what was compared before, and has been named."""
    if compared.instead is not None:
        return f"{INITIAL_SHARE} takes one workload of a queue at most, here {compared.instead}"
    victim = _weighted(compared.victim) if compared is first else "it"
    then = "" if compared.share == first.share else f"by then {_amount(compared.share)}, "
    if compared.strategy == FINAL_SHARE:
        than = f"more than the {_amount(compared.after)} that {victim} would have without that one"
    else:
        than = f"not less than the {_amount(compared.before)} that {victim} has"
    return f"{then}{than} ({compared.strategy})"


def _amount(share: Share) -> str:
    """Return a share in thousandths, rounded up as in the status."""
    return "infinity" if share.is_infinite else str(share.rounded)


def _weighted(node: Node) -> str:
    weight = f"{node.weight / WEIGHT_SCALE:.9f}".rstrip("0").rstrip(".")
    kind = "ClusterQueue" if node.is_cluster_queue else "Cohort"
    return f"{kind} {node.name} (weight {weight})"
