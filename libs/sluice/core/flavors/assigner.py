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
    assignment.message, .no_fit_reason, .constraints    built only when asked for

Nothing here changes the world; results depend on the arguments only.

Resources are looked at in order of name, so that equal workloads get equal answers.
"""

from collections.abc import Mapping, Sequence

from sluice.core.workload.charges import given_back
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.workload import Workload
from sluice.events.base import PodSet, PodSetAssignment

from .assignment import (
    NO_MATCH,
    Assignment,
    Detail,
    FlavorChoice,
    Look,
    Mode,
    PodSetResult,
    ScanState,
)
from .search import Oracle, Pinned, Search


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
    search = Search(world, workload, cq, oracle, scan=scan, replaced=replaced, pinned=pinned)
    return _Assigner(world, workload, search).run(counts)


def assign_like(
    world: World, workload: Workload, cq: ClusterQueue, oracle: Oracle, like: Assignment
) -> Assignment | None:
    """Return what `assign` does for one that is equal to whom *like* was given, but does not fit as it did.

    For queues with one flavor for each resource: only amounts can differ from what fitted. None if there may
    be more to say than which resources are to be had by preemption; then `assign` says it.
    """
    if len(like.pod_sets) != 1:
        return None
    search = Search(world, workload, cq, oracle, scan=None, replaced=None, pinned=None)
    plan, pod_sets, before = search.plan, workload.record.pod_sets, like.pod_sets[0]
    if not before.count:
        return None
    chosen: dict[str, FlavorChoice] = {}
    details: list[Detail] = []
    looks: list[tuple[str, Sequence[str], Sequence[Look]]] = []
    for resource, names, _ in before.looks:
        group = plan.group_of[resource]
        wanted = [item for item in before.requests.items() if item[0] in group.covered]
        choices, why, look = search.judge(group.flavors[0], pod_sets, wanted)
        if not choices:
            return None
        chosen.update(choices)
        details += why
        looks.append((resource, names, (look,)))
    if not details or chosen.keys() != before.flavors.keys():
        return None
    result = PodSetResult(before.name, before.count, before.requests, chosen, details, 0, looks)
    found = Assignment(plan.group_names, like.usage)
    found.pod_sets.append(result)
    found.scan = like.scan
    found.mode = result.mode
    found.borrowing = max(choice.borrow for choice in chosen.values())
    return found


class _Assigner:
    """One call of `assign`."""

    __slots__ = ("assignment", "in_full", "search", "workload", "world")

    def __init__(self, world: World, workload: Workload, search: Search) -> None:
        self.world = world
        self.workload = workload
        self.search = search
        self.assignment = Assignment(search.plan.group_names, search.usage)
        self.in_full = True
        """Is it for all pods that have work left? The slice is given those that have none, too."""

    def run(self, counts: Sequence[int] | None) -> Assignment:
        pod_sets = self.workload.record.pod_sets
        self.in_full = counts is None
        if counts is None:
            counts = self._current_counts(pod_sets)
        self.assignment.scan = [{} for _ in pod_sets]
        if self.search.old is not None:
            self._give_up(pod_sets, counts)
        if len(pod_sets) == 1:
            self._assign_group(pod_sets, (0,), counts)
        else:
            for members in _grouped(pod_sets):
                if not self._assign_group(
                    [pod_sets[i] for i in members], members, [counts[i] for i in members]
                ):
                    break
        if not self.assignment.pod_sets:
            self.assignment.mode = Mode.NO_FIT
        if self.search.shared:
            self._share()
        return self.assignment

    def _share(self) -> None:
        """Charge only what is needed beyond the variant's siblings (CA10)."""
        usage = self.assignment.usage
        self.assignment.whole = dict(usage)
        for fr, amount in self.search.shared.items():
            if fr in usage:
                usage[fr] -= min(usage[fr], amount)
                if not usage[fr]:
                    del usage[fr]

    def _current_counts(self, pod_sets: Sequence[PodSet]) -> Sequence[int]:
        ended = given_back(self.world.config, self.workload.reclaimable)
        if ended:
            return [max(0, ps.count - ended.get(ps.name, 0)) for ps in pod_sets]
        return [ps.count for ps in pod_sets]

    def _give_up(self, pod_sets: Sequence[PodSet], counts: Sequence[int]) -> None:
        """Count first what pod sets of the old slice had beyond the new one: others may have it (WS3)."""
        assert self.search.old is not None
        usage = self.assignment.usage
        for ps, count in zip(pod_sets, counts, strict=True):
            old = self.search.old.get(ps.name)
            if old is None:
                continue
            totals = self._totals(ps, count)
            for resource, flavor in old.flavors.items():
                fewer = old.usage.get(resource, 0) - totals.get(resource, 0)
                if fewer > 0:
                    usage[flavor, resource] = usage.get((flavor, resource), 0) - fewer

    def _assign_group(
        self, pod_sets: Sequence[PodSet], members: Sequence[int], counts: Sequence[int]
    ) -> bool:
        """Assign the same flavors to pod sets that belong together; False when there are none."""
        totals = [self._totals(ps, count) for ps, count in zip(pod_sets, counts, strict=True)]
        requests = totals[0] if len(totals) == 1 else _sum(totals)
        probe = None if any(counts) else _sum([self._totals(ps, 1) for ps in pod_sets])
        chosen: dict[str, FlavorChoice] = {}
        details: list[Detail] = []
        severity = 0
        looks: list[tuple[str, Sequence[str], Sequence[Look]]] = []
        for resource, amount in requests.items():
            if resource in chosen:
                continue
            group = self.search.plan.group_of.get(resource)
            if group is None:
                if amount == 0 or self.world.config.quota_check_strategy == "IgnoreUndeclared":
                    continue
                chosen, severity = {}, NO_MATCH
                details = [f"resource {resource} unavailable in ClusterQueue"]
                break
            found, why, seen = self.search.find(group, pod_sets, members[0], requests, probe, resource)
            if not found and probe is not None:
                # That one pod could run is a preference, no condition, while no pod is to run.
                found, why, seen = self.search.find(group, pod_sets, members[0], requests, None, resource)
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
        """Return what *count* pods request, by name of resource."""
        totals = {resource: amount * count for resource, amount in ps.requests.items()}
        if self.search.plan.counts_pods:
            totals["pods"] = count
        return dict(sorted(totals.items())) if len(totals) > 1 else totals

    def _append(self, position: int, result: PodSetResult) -> None:
        """Take the group's choices for what the pod set requests, and count its usage."""
        assignment = self.assignment
        requests = result.requests
        if result.flavors.keys() != requests.keys():
            result.flavors = {res: choice for res, choice in result.flavors.items() if res in requests}
        assignment.pod_sets.append(result)
        if result.details:
            assignment.mode = min(assignment.mode, result.mode)
        old = None if self.search.old is None else self.search.old.get(result.name)
        if old is not None and self.in_full:
            pods = self.workload.record.pod_sets[position]
            if pods.count != result.count:
                result.whole = (pods.count, self._totals(pods, pods.count))
        usage = assignment.usage
        tried = assignment.scan[position]
        for resource, choice in result.flavors.items():
            fr = (choice.name, resource)
            amount = requests[resource]
            if old is not None:
                amount = max(0, amount - old.usage.get(resource, 0))
            usage[fr] = usage.get(fr, 0) + amount
            tried[resource] = choice.tried_flavor_idx
            if choice.borrow > assignment.borrowing:
                assignment.borrowing = choice.borrow


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


__all__ = ["Pinned", "assign", "assign_like"]
