"""What a pending workload is short of, and who holds it: may they be preempted, and if not, why not (DB2)."""

from collections.abc import Iterator, Sequence
from typing import Any

from sluice.api.quantity import format_value, resource_value
from sluice.core.flavors.eligibility import FlavorRule
from sluice.core.preemption.candidates import Search
from sluice.core.quota.tree import FlavorResource, find_height_of_lowest_subtree_that_fits
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.model import ClusterQueue
from sluice.core.world.preemption_history import actor
from sluice.core.world.variants import allowed_flavors, family_usage
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import charged, replaced_slice
from sluice.events.base import PodSetAssignment
from sluice.replay.views.pending_preemptions import at_hand, imposed

from .report import Candidate, Numbers, Report

SHOWN = 20
"""Candidates listed per cause."""


def add_numbers(state: SchedulerState, workload: Workload, cq: ClusterQueue, report: Report) -> None:
    node = cq.node
    old = replaced_slice(state.world, workload)
    had = {} if old is None else {a.name: a for a in charged(state.world, old)}
    siblings = family_usage(state.world, workload, cq.name)
    for pod_set in workload.record.pod_sets:
        # A slice is charged only for what it has beyond the one that it replaces (WS3).
        before = had.get(pod_set.name)
        count = max(0, pod_set.count - (0 if before is None else before.count))
        requests = {r: a * count for r, a in pod_set.requests.items()}
        if "pods" in cq.group_of:
            requests["pods"] = count
        for resource, amount in sorted(requests.items()):
            group = cq.group_of.get(resource)
            text = format_value(resource, amount)
            if group is None:
                obstacle = f"resource {resource} unavailable in ClusterQueue"
                report.numbers.append(Numbers("", resource, pod_set.name, text, obstacle=obstacle))
                continue
            for name in group.flavors:
                fr = (name, resource)
                used, nominal, whole = node.used(fr), node.nominal(fr), node.available(fr)
                available = at_hand(state, workload, cq, fr, whole)
                # What siblings hold counts once, whichever pod sets ask for it.
                shared = min(amount, siblings.get(fr, 0))
                if shared:
                    siblings[fr] -= shared
                report.numbers.append(
                    Numbers(
                        flavor=name,
                        resource=resource,
                        pod_set=pod_set.name,
                        requested=text,
                        nominal=format_value(resource, nominal),
                        used=format_value(resource, used),
                        borrowable=format_value(resource, max(0, whole - max(0, nominal - used))),
                        available=format_value(resource, available),
                        short=format_value(resource, max(0, amount - shared - available)),
                        shared=format_value(resource, shared),
                        obstacle=obstacle_of(state, workload, name, pod_set) or _kept(before, fr),
                    )
                )


def wanted_beyond(numbers: Numbers) -> int:
    """Return what is asked for beyond what siblings are charged for, in base units."""
    shared = resource_value(numbers.resource, numbers.shared)
    return resource_value(numbers.resource, numbers.requested) - shared


def obstacle_of(state: SchedulerState, workload: Workload, flavor: str, pod_set: Any) -> str:
    """Return why the pods may not run on a flavor, whatever its quota; "" when they may."""
    allowed = allowed_flavors(state.world.config, workload.record)
    if allowed and flavor not in allowed:
        return f"flavor {flavor} is not in allowedResourceFlavors"
    manifest = state.world.flavors.get(flavor)
    if manifest is None:
        return f"flavor {flavor} not found"
    return FlavorRule(manifest).obstacle(pod_set)


def _kept(before: PodSetAssignment | None, fr: FlavorResource) -> str:
    """Return why pods of a slice may not run on a flavor: those that run keep theirs (WS5)."""
    kept = None if before is None else before.flavors.get(fr[1])
    return f"flavor {fr[0]}: its pods run on {kept}, and keep to it" if kept not in (None, fr[0]) else ""


def add_candidates(state: SchedulerState, workload: Workload, cq: ClusterQueue, report: Report) -> None:
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
    refused = _must_not_borrow(state, cq, report.numbers)
    found: list[Candidate] = []
    search = Search(state.world, cq, workload, dict.fromkeys(short, 0), short)
    for queue in _queues_of_tree(state, cq) if lent else [cq]:
        over = search.is_over_quota(queue.node)
        for holder in queue.workloads.values():
            if not any(fr in holder.usage for fr in short) or holder.key == workload.record.replaces:
                continue
            why = _why_not(state, workload, cq, queue, holder, over=over)
            held = [fr for fr in short if fr in holder.usage]
            if not why and all(fr in refused for fr in held):
                why = refused[held[0]]
            why = why or _why_spared(state, workload, holder)
            usage = {
                f"{f}/{r}": format_value(r, holder.usage[f, r]) for f, r in short if (f, r) in holder.usage
            }
            found.append(Candidate(holder.key, queue.name, holder.priority, usage, not why, why))
    found.sort(key=lambda c: (not c.allowed, c.cluster_queue != cq.name, c.priority, c.workload))
    kinds: dict[tuple[bool, str, str], int] = {}
    for candidate in found:
        kind = (candidate.allowed, candidate.cluster_queue, candidate.why)
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= SHOWN and len(report.candidates) < 10 * SHOWN:
            report.candidates.append(candidate)
    report.candidates_left_out = len(found) - len(report.candidates)


def _must_not_borrow(
    state: SchedulerState, cq: ClusterQueue, numbers: Sequence[Numbers]
) -> dict[FlavorResource, str]:
    """Return for what nobody is preempted, as the workload would have to borrow besides (PR2), and why."""
    policy = cq.spec.preemption
    within = policy.borrow_within_cohort if policy is not None else None
    reclaims = policy is not None and policy.reclaim_within_cohort not in ("", "Never")
    if within is not None and within.policy == "LowerPriority":
        return {}
    if reclaims and state.world.config.fair_sharing.enable:
        return {}
    wanted: dict[FlavorResource, int] = {}
    for n in numbers:
        fr = (n.flavor, n.resource)
        wanted[fr] = wanted.get(fr, 0) + wanted_beyond(n)
    found = {}
    for fr, amount in wanted.items():
        nominal = cq.node.nominal(fr)
        if amount > nominal and not find_height_of_lowest_subtree_that_fits(cq.node, fr, amount)[1]:
            own, asked = format_value(fr[1], nominal), format_value(fr[1], amount)
            text = f"it would borrow, too ({asked} {fr[1]} asked for, {own} of {cq.name}'s own)"
            found[fr] = f"{text}, and borrowWithinCohort is Never"
    return found


def _queues_of_tree(state: SchedulerState, cq: ClusterQueue) -> Iterator[ClusterQueue]:
    todo = [cq.node.root()]
    while todo:
        node = todo.pop()
        if node.is_cluster_queue:
            yield state.world.cluster_queues[node.name]
        todo += reversed(node.children)


def _why_not(
    state: SchedulerState,
    workload: Workload,
    cq: ClusterQueue,
    queue: ClusterQueue,
    holder: Workload,
    *,
    over: bool,
) -> str:
    """Return the rule that protects *holder*; "" if it may be preempted."""
    record = workload.record
    if "cannot-preempt" in imposed(state, record):
        return "the pending workload must not preempt (cannot-preempt)"
    if record.parent is not None and record.parent == holder.record.parent:
        return "it is a variant of the same job, which moves instead of being preempted"
    closed = [gate for gate in record.preemption_gates if gate not in workload.open_gates]
    policy = cq.spec.preemption
    priority = f"its priority {holder.priority} is not below {workload.priority}"
    if queue is cq:
        within = (policy.within_cluster_queue if policy else "") or "Never"
        if within == "Never":
            return "withinClusterQueue is Never"
        if holder.priority < workload.priority:
            return _behind(closed)
        if within == "LowerPriority":
            return f"withinClusterQueue is LowerPriority, and {priority}"
        own = Search(state.world, cq, workload, {}, tuple(holder.usage))
        if any(entry[1] is holder for entry in own.own(evicted=holder.evicted_at is not None)):
            return _behind(closed)
        return "withinClusterQueue is LowerOrNewerEqualPriority, and it is neither lower nor newer"
    reclaim = (policy.reclaim_within_cohort if policy else "") or "Never"
    if reclaim == "Never":
        return "reclaimWithinCohort is Never"
    if not over:
        return f"{queue.name} is within its nominal quota of what is short"
    if reclaim == "LowerPriority" and holder.priority >= workload.priority:
        return f"reclaimWithinCohort is LowerPriority, and {priority}"
    return _behind(closed)


def _why_spared(state: SchedulerState, workload: Workload, holder: Workload) -> str:
    circles = state.world.circles
    pending, held = actor(workload), actor(holder)
    if not circles or holder.evicted_at is not None or held not in circles.spared_by(pending):
        return ""
    if circles.has_preempted(held, pending):
        return "it has preempted the pending workload, directly or through others: that would be a circle"
    return "it was preempted for the pending workload again and again, and nothing came of it"


def _behind(closed: Sequence[str]) -> str:
    return f"the policy lets it, but the pending workload's gate {closed[0]} is closed" if closed else ""


__all__ = ["SHOWN", "add_candidates", "add_numbers", "obstacle_of", "wanted_beyond"]
