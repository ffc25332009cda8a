"""Flavor assignment: which flavor each resource of each pod set would get, and what stands in the way (SC4).

Interface, for the cycle:

    assignment = assign(world, workload, cq, oracle, counts=..., scan=..., replaced=..., pinned=...)
    assignment.mode            Mode.FIT | Mode.PREEMPT | Mode.NO_FIT: the worst of its pod sets
    assignment.borrowing       height of the smallest cohort tree that has the quota; 0: own nominal quota
    assignment.usage           (flavor, resource) -> what admission would charge (the delta, for a slice)
    assignment.needs_preemption()       the (flavor, resource)s whose mode is PREEMPT
    assignment.pod_set_assignments()    for QuotaReserved
    assignment.pinned()        for a second look in the same cycle that must keep to the same flavors
    assignment.scan            how far the scan came: record it, give it back next time (law 4)
    pending_flavors(scan)      are there flavors that this attempt did not come to?
    assignment.message, .no_fit_reason, .attempts_text()    built only when asked for

Nothing here changes the world; results depend on the arguments only.

How a flavor is judged: every requested resource of the group gets a granular mode (`_FIT` best, `_NO_FIT`
worst) and a borrowing height; the flavor has the worst of them. Which of two outcomes is worse is the
queue's `preference`; whether to look at further flavors after a good one, its `whenCanBorrow` and
`whenCanPreempt`. Resources are looked at in order of name, so that equal workloads get equal answers.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sluice.events.base import PodSet, PodSetAssignment

from .assignment import (
    CANNOT_BORROW,
    CANNOT_PREEMPT,
    EXCEEDS,
    NO_MATCH,
    WAITING,
    Assignment,
    Attempt,
    Detail,
    FlavorChoice,
    Look,
    Mode,
    PodSetResult,
    Possibility,
    ScanState,
    exceeds_text,
    nominal_exceeded_text,
    pending_flavors,
    probe_text,
    slice_text,
    unused_text,
)
from .flavor_plan import FlavorPlan, GroupPlan, Plan, plan_of
from .model import ClusterQueue, Workload, World
from .quota import FlavorResource, find_height_of_lowest_subtree_that_fits

Pinned = Mapping[str, Mapping[str, str]]
"""Pod set name -> resource -> the only flavor to consider (a second look within the same cycle)."""

_NO_FIT, _NO_CANDIDATES, _FIT = 0, 1, 4
"""Granular modes; 1 + Possibility lies between."""

_MODE_OF = (Mode.NO_FIT, Mode.PREEMPT, Mode.PREEMPT, Mode.PREEMPT, Mode.FIT)

_Outcome = tuple[int, int]
"""Granular mode and borrowing height."""

_WORST: _Outcome = (_NO_FIT, 2**31)


class Oracle(Protocol):
    """Tries preemption without doing it."""

    def possibility(
        self, cq: ClusterQueue, workload: Workload, fr: FlavorResource, amount: int
    ) -> tuple[Possibility, int]:
        """Could *amount* more of *fr* be had by preempting? Second: the borrowing height afterwards.

        A workload that cannot borrow needs victims after which its queue is within nominal quota.
        """
        ...


def assign(
    world: World,
    workload: Workload,
    cq: ClusterQueue,
    oracle: Oracle,
    *,
    counts: Sequence[int] | None = None,
    scan: ScanState | None = None,
    replaced: Sequence[PodSetAssignment] | None = None,
    pinned: Pinned | None = None,
) -> Assignment:
    """Assign flavors to every pod set, against the usage that the tree has now.

    `counts`: pods per pod set, by position, instead of the full counts less reclaimable ones (SC7).
    `scan`: start after the flavors that an earlier attempt tried. `replaced`: assignment of the slice
    that this one replaces: same flavors, and only the difference is needed (WS3, WS5).
    """
    return _Assigner(world, workload, cq, oracle, scan, replaced, pinned).run(counts)


class _Assigner:
    """One call of `assign`."""

    __slots__ = (
        "allowed",
        "assignment",
        "cannot_borrow",
        "cannot_preempt",
        "cq",
        "node",
        "old",
        "oracle",
        "pinned",
        "plan",
        "preempts_borrowing",
        "scan",
        "workload",
        "world",
    )

    def __init__(
        self,
        world: World,
        workload: Workload,
        cq: ClusterQueue,
        oracle: Oracle,
        scan: ScanState | None,
        replaced: Sequence[PodSetAssignment] | None,
        pinned: Pinned | None,
    ) -> None:
        record = workload.record
        config = world.config
        gates = config.feature_gates
        self.world = world
        self.workload = workload
        self.cq = cq
        self.node = cq.node
        self.plan: Plan = plan_of(cq)
        self.oracle = oracle
        self.scan = scan
        self.pinned = pinned
        self.old = None if replaced is None else {old.name: old for old in replaced}
        constrained = gates.get("WorkloadAdmissionConstraints", True)
        self.cannot_borrow = record.cannot_borrow and constrained
        self.cannot_preempt = record.cannot_preempt and constrained
        self.allowed = record.allowed_flavors if gates.get("ConcurrentAdmission", True) else ()
        # With fair sharing, preempting while borrowing is what evens out shares.
        self.preempts_borrowing = self.plan.preempts_borrowing or (
            self.plan.reclaims and config.fair_sharing.enable
        )
        self.assignment = Assignment(self.plan.group_names)

    # Pod sets

    def run(self, counts: Sequence[int] | None) -> Assignment:
        assignment = self.assignment
        pod_sets = self.workload.record.pod_sets
        if counts is None:
            counts = self._current_counts(pod_sets)
        assignment.scan = [{} for _ in pod_sets]
        for members in _grouped(pod_sets):
            if not self._assign_group([pod_sets[i] for i in members], members, [counts[i] for i in members]):
                break
        assignment.mode = min((result.mode for result in assignment.pod_sets), default=Mode.NO_FIT)
        return assignment

    def _current_counts(self, pod_sets: Sequence[PodSet]) -> Sequence[int]:
        reclaimable = self.workload.reclaimable
        if reclaimable and self.world.config.feature_gates.get("ReclaimablePods", True):
            return [max(0, ps.count - reclaimable.get(ps.name, 0)) for ps in pod_sets]
        return [ps.count for ps in pod_sets]

    def _assign_group(
        self, pod_sets: Sequence[PodSet], members: Sequence[int], counts: Sequence[int]
    ) -> bool:
        """Assign the same flavors to pod sets that belong together; False when there are none."""
        totals = [self._totals(ps, count) for ps, count in zip(pod_sets, counts, strict=True)]
        requests = totals[0] if len(totals) == 1 else _sum(totals)
        probe = None if any(counts) else self._probe(pod_sets)
        chosen: dict[str, FlavorChoice] = {}
        details: list[Detail] = []
        severity = 0
        looks: list[tuple[str, Sequence[str], Sequence[Look]]] = []
        for resource in sorted(requests) if len(requests) > 1 else requests:
            if resource in chosen:
                continue
            group = self.plan.group_of.get(resource)
            if group is None:
                if requests[resource] == 0:
                    continue
                chosen, severity = {}, NO_MATCH
                details = [f"resource {resource} unavailable in ClusterQueue"]
                break
            found, why, seen = self._find(group, pod_sets, members[0], requests, probe, resource)
            if not found and probe is not None:
                # That one pod could run is a preference, no condition, while no pod is to run.
                found, why, seen = self._find(group, pod_sets, members[0], requests, None, resource)
            looks.append((resource, group.names, seen))
            if not found:
                chosen, details = {}, why
                break
            chosen.update(found)
            details += why
        for position, ps, count, total in zip(members, pod_sets, counts, totals, strict=True):
            self._append(position, PodSetResult(ps.name, count, total, chosen, details, severity, looks))
        return bool(chosen) or not details

    def _totals(self, ps: PodSet, count: int) -> dict[str, int]:
        totals = {resource: amount * count for resource, amount in ps.requests.items()}
        if self.plan.counts_pods:
            totals["pods"] = count
        return totals

    def _probe(self, pod_sets: Sequence[PodSet]) -> dict[str, int]:
        return _sum([self._totals(ps, 1) for ps in pod_sets])

    def _append(self, position: int, result: PodSetResult) -> None:
        """Take the group's choices for what the pod set requests, and count its usage."""
        assignment = self.assignment
        requests = result.requests
        if result.flavors.keys() != requests.keys():
            result.flavors = {res: choice for res, choice in result.flavors.items() if res in requests}
        assignment.pod_sets.append(result)
        old = None if self.old is None else self.old.get(result.name)
        usage = assignment.usage
        tried = assignment.scan[position]
        for resource, choice in result.flavors.items():
            fr = (choice.name, resource)
            amount = requests[resource]
            if old is not None:
                amount -= old.usage.get(resource, 0)
            usage[fr] = usage.get(fr, 0) + amount
            tried[resource] = choice.tried_flavor_idx
            if choice.borrow > assignment.borrowing:
                assignment.borrowing = choice.borrow

    # Flavors

    def _find(
        self,
        group: GroupPlan,
        pod_sets: Sequence[PodSet],
        position: int,
        requests: Mapping[str, int],
        probe: Mapping[str, int] | None,
        resource: str,
    ) -> tuple[dict[str, FlavorChoice], list[Detail], list[Look]]:
        """Find the flavor for all requests that *group* covers; with the reasons unless it fits at once."""
        plan = self.plan
        covered = group.covered
        wanted = [(res, requests[res]) for res in requests if res in covered]
        best: dict[str, FlavorChoice] = {}
        best_outcome = _WORST
        details: list[Detail] = []
        looks: list[Look] = []
        start = 0
        if self.scan is not None and position < len(self.scan):
            start = self.scan[position].get(resource, -1) + 1
        last = -1
        for index in range(start, len(group.flavors)):
            last = index
            flavor = group.flavors[index]
            skipped = self._skip(flavor, pod_sets, resource)
            if skipped:
                details.append(skipped)
                continue
            look = self._obstacles(flavor, pod_sets, probe)
            if look is not None:
                details += look.details
                looks.append(look)
                continue
            choices, outcome, look = self._try(flavor, pod_sets, wanted)
            details += look.details
            looks.append(look)
            if not self._try_next(outcome):
                best, best_outcome = choices, outcome
                break
            if _preferred(outcome, best_outcome, plan.spare_borrowing):
                best, best_outcome = choices, outcome
        if last == len(group.flavors) - 1:
            last = -1  # all were tried: the next attempt starts at the first
        for choice in best.values():
            choice.tried_flavor_idx = last
        return best, ([] if best_outcome[0] == _FIT else details), looks

    def _skip(self, flavor: FlavorPlan, pod_sets: Sequence[PodSet], resource: str) -> str:
        name = flavor.name
        if self.pinned and not any(self.pinned.get(ps.name, {}).get(resource) == name for ps in pod_sets):
            return (
                f"skipping flavor {name} as it is not found in the nomination mapping for resource {resource}"
            )
        if self.allowed and name not in self.allowed:
            return f"skipping flavor {name} due to WorkloadAllowedResourceFlavorAnnotation annotation"
        return ""

    def _obstacles(
        self, flavor: FlavorPlan, pod_sets: Sequence[PodSet], probe: Mapping[str, int] | None
    ) -> Look | None:
        """Return why pods cannot run on the flavor, whatever its quota; None when they can."""
        rule = flavor.current_rule(self.world.flavors.get(flavor.name))
        if rule is None:
            return Look(flavor.name, _NO_FIT, 0, (f"flavor {flavor.name} not found",), NO_MATCH)
        if not rule.open:
            for ps in pod_sets:
                obstacle = rule.obstacle(ps)
                if obstacle:
                    return Look(flavor.name, _NO_FIT, 0, (obstacle,), NO_MATCH)
        if probe is not None:
            lacking = tuple(
                (probe_text, fr, probe[res], self.node.potential_available(fr))
                for res, fr in flavor.frs.items()
                if res in probe and self.node.potential_available(fr) < probe[res]
            )
            if lacking:
                return Look(flavor.name, _NO_FIT, 0, lacking, EXCEEDS)
        return None

    def _try(
        self, flavor: FlavorPlan, pod_sets: Sequence[PodSet], wanted: Sequence[tuple[str, int]]
    ) -> tuple[dict[str, FlavorChoice], _Outcome, Look]:
        """Judge the flavor by the worst of the wanted resources."""
        name = flavor.name
        worst: _Outcome = (_FIT, 0)
        borrowed = severity = 0
        details: list[Detail] = []
        choices: dict[str, FlavorChoice] = {}
        for resource, amount in wanted:
            fr = flavor.frs[resource]
            if self.old is not None:
                amount, original = self._beyond_old(name, pod_sets, resource, amount)
                if original is not None:
                    worst, severity = _WORST, NO_MATCH
                    details.append((slice_text, name, original))
            assumed = self.assignment.usage.get(fr, 0)
            granular, borrow, detail, why = self._fits(fr, assumed, amount, ask=worst[0] != _NO_FIT)
            if detail is not None:
                details.append(detail)
                severity = max(severity, why)
            borrowed = max(borrowed, borrow)
            outcome = (granular, borrow)
            if outcome != worst and _preferred(worst, outcome, self.plan.spare_borrowing):
                worst = outcome
            if worst[0] != _NO_FIT:
                choices[resource] = FlavorChoice(name, _MODE_OF[granular], borrow)
        return choices, worst, Look(name, worst[0], borrowed, details, severity)

    def _beyond_old(
        self, name: str, pod_sets: Sequence[PodSet], resource: str, amount: int
    ) -> tuple[int, str | None]:
        """Return what is needed beyond the replaced slice, and its flavor if that is another one."""
        assert self.old is not None
        for ps in pod_sets:
            old = self.old.get(ps.name)
            if old is None or (resource not in ps.requests and resource not in old.flavors):
                continue
            original = old.flavors.get(resource, "")
            if original != name:
                return amount, original
            amount -= old.usage.get(resource, 0)
        return amount, None

    def _fits(
        self, fr: FlavorResource, assumed: int, amount: int, *, ask: bool
    ) -> tuple[int, int, Detail | None, int]:
        """Return granular mode, borrowing height, reason unless it fits, and the reason's severity.

        `ask`: whether the oracle's answer would still matter.
        """
        node = self.node
        total = assumed + amount
        available = node.available(fr)
        quota = node.quotas.get(fr)
        nominal = 0 if quota is None else quota.nominal
        constraint = ""
        if self.cannot_borrow:
            # AX6: such a workload sees nothing beyond its queue's own nominal quota.
            if total > nominal and total <= node.potential_available(fr):
                return _NO_FIT, 0, (nominal_exceeded_text, fr, assumed, amount, nominal), EXCEEDS
            unused = nominal - node.used(fr)
            if unused < available:
                available, constraint = unused, CANNOT_BORROW
        if total <= available:
            return _FIT, find_height_of_lowest_subtree_that_fits(node, fr, total)[0], None, 0
        most = node.potential_available(fr)
        if total > most:
            return _NO_FIT, 0, (exceeds_text, fr, assumed, amount, most), EXCEEDS
        height, may_reclaim = find_height_of_lowest_subtree_that_fits(node, fr, total)
        if nominal < total and not may_reclaim and not self.preempts_borrowing:
            return _NO_FIT, height, (unused_text, fr, total - available, constraint), WAITING
        if self.cannot_preempt:
            if self.plan.may_preempt:
                constraint = CANNOT_PREEMPT
            return _NO_FIT, height, (unused_text, fr, total - available, constraint), WAITING
        detail = (unused_text, fr, total - available, constraint)
        if not ask:
            return _NO_FIT, height, detail, 0
        possibility, height = self.oracle.possibility(self.cq, self.workload, fr, total)
        if self.cannot_borrow and height:
            return _NO_FIT, height, (unused_text, fr, total - available, CANNOT_BORROW), WAITING
        return 1 + possibility, height, detail, 0

    def _try_next(self, outcome: _Outcome) -> bool:
        """Should flavors after this one be looked at (flavorFungibility)?"""
        granular, borrow = outcome
        if granular <= _NO_CANDIDATES:
            return True
        if granular != _FIT and self.plan.preempt_try_next:
            return True
        return borrow > 0 and self.plan.borrow_try_next


def _preferred(a: _Outcome, b: _Outcome, spare_borrowing: bool) -> bool:
    """Is *a* strictly better than *b*? No fit is worst, then a preemption without candidates."""
    if a[0] <= _NO_CANDIDATES or b[0] <= _NO_CANDIDATES:
        if a[0] == _NO_FIT or b[0] == _NO_FIT:
            return a[0] > b[0]
        if a[0] != b[0]:
            return a[0] > b[0]
    if spare_borrowing and a[1] != b[1]:
        return a[1] < b[1]
    if a[0] != b[0]:
        return a[0] > b[0]
    return a[1] < b[1]


def _grouped(pod_sets: Sequence[PodSet]) -> list[list[int]]:
    """Return positions of pod sets that share flavors, groups in order of their first member."""
    if not any(ps.group for ps in pod_sets):
        return [[i] for i in range(len(pod_sets))]
    groups: dict[str | int, list[int]] = {}
    for i, ps in enumerate(pod_sets):
        groups.setdefault(ps.group or i, []).append(i)
    return list(groups.values())


def _sum(totals: Sequence[Mapping[str, int]]) -> dict[str, int]:
    result: dict[str, int] = {}
    for total in totals:
        for resource, amount in total.items():
            result[resource] = result.get(resource, 0) + amount
    return result


__all__ = [
    "Assignment",
    "Attempt",
    "FlavorChoice",
    "Mode",
    "Oracle",
    "Pinned",
    "PodSetResult",
    "Possibility",
    "ScanState",
    "assign",
    "pending_flavors",
]
