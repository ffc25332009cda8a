"""The search for the flavor of one resource group: who is eligible, what fits, what is best (SC4).

A flavor is judged by the worst of the requested resources; each has a granular mode (4 fits, 1 + Possibility
after preemption, 0 does not) and a borrowing height. Which of two outcomes is worse is the queue's
`preference`; whether to look at further flavors after a good one, its `whenCanBorrow`, `whenCanPreempt`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sluice.api.features import FLAVOR_FUNGIBILITY, enabled
from sluice.core.preemption.targets import Possibility
from sluice.core.quota.tree import FlavorResource, find_height_of_lowest_subtree_that_fits
from sluice.core.workload.admission_constraints import may_borrow, may_preempt
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.variants import allowed_flavors, family_usage
from sluice.core.world.workload import Workload
from sluice.events.base import PodSet, PodSetAssignment

from .assignment import (
    CANNOT_BORROW,
    CANNOT_PREEMPT,
    EXCEEDS,
    NO_MATCH,
    WAITING,
    Detail,
    FlavorChoice,
    Look,
    Mode,
    ScanState,
    exceeds_text,
    nominal_exceeded_text,
    probe_text,
    slice_text,
    unused_text,
)
from .plan import FlavorPlan, GroupPlan, asks_nobody, plan_of

Pinned = Mapping[str, Mapping[str, str]]
"""Pod set name -> resource -> the only flavor to consider (a second look within the same cycle)."""

_NO_FIT, _NO_CANDIDATES, _FIT = 0, 1, 4
_MODE_OF = (Mode.NO_FIT, Mode.PREEMPT, Mode.PREEMPT, Mode.PREEMPT, Mode.FIT)

_Outcome = tuple[int, int]
"""Granular mode and borrowing height."""

_Marks = Sequence[tuple[str, int, int]]
"""Per resource: its name and its outcome."""

_WORST: _Outcome = (_NO_FIT, 2**31)

Found = tuple[dict[str, FlavorChoice], list[Detail], list[Look]]
"""The choice per resource; what stands in the way, unless it fits at once; the flavors looked at."""


class Oracle(Protocol):
    """Tries preemption without doing it."""

    def possibility(
        self, cq: ClusterQueue, workload: Workload, fr: FlavorResource, amount: int
    ) -> tuple[Possibility, int]:
        """Could *amount* more of *fr* be had by preempting? Second: the borrowing height afterwards.

        A workload that cannot borrow needs victims after which its queue is within nominal quota.
        """
        ...


class Search:
    """What all searches for one workload have in common."""

    __slots__ = (
        "_allowed",
        "_cannot_borrow",
        "_cannot_preempt",
        "_cq",
        "_fungible",
        "_held",
        "_node",
        "_oracle",
        "_pinned",
        "_preempts_borrowing",
        "_scan",
        "_workload",
        "_world",
        "old",
        "plan",
        "shared",
        "usage",
    )

    def __init__(
        self,
        world: World,
        workload: Workload,
        cq: ClusterQueue,
        oracle: Oracle,
        *,
        scan: ScanState | None,
        replaced: Sequence[PodSetAssignment] | None,
        pinned: Pinned | None,
    ) -> None:
        record = workload.record
        config = world.config
        gates = config.feature_gates
        self._world = world
        self._workload = workload
        self._cq = cq
        self._node = cq.node
        self._oracle = oracle
        self._scan = scan
        self._pinned = pinned
        self.plan = plan_of(cq)
        self.old = None if replaced is None else {old.name: old for old in replaced}
        """The replaced slice's assignment, by pod set."""
        self._held: dict[FlavorResource, int] = {}
        """What the replaced slice has."""
        for part in replaced or ():
            for resource, flavor in part.flavors.items():
                fr = (flavor, resource)
                self._held[fr] = self._held.get(fr, 0) + part.usage.get(resource, 0)
        self.shared = family_usage(world, workload, cq.name) if record.parent is not None else {}
        """What siblings of a variant are charged for already: that much is not needed again (CA10)."""
        self.usage: dict[FlavorResource, int] = {}
        """Of pod sets that have got flavors already."""
        self._cannot_borrow = not may_borrow(world.config, record)
        self._cannot_preempt = not may_preempt(world.config, record)
        self._fungible = enabled(gates, FLAVOR_FUNGIBILITY)
        """Else the first flavor that fits is taken, or the first that could after preemption."""
        self._allowed = allowed_flavors(config, record) if record.allowed_flavors else ()
        self._preempts_borrowing = self.plan.may_preempt_borrowing(fair_sharing=config.fair_sharing.enable)

    def find(
        self,
        group: GroupPlan,
        pod_sets: Sequence[PodSet],
        position: int,
        requests: Mapping[str, int],
        probe: Mapping[str, int] | None,
        resource: str,
    ) -> Found:
        """Find the flavor for all requests that *group* covers; with the reasons unless it fits at once."""
        wanted = [item for item in requests.items() if item[0] in group.covered]
        best_name = ""
        best: _Marks = ()
        best_outcome = _WORST
        details: list[Detail] = []
        looks: list[Look] = []
        came = None if self._scan is None else self._came_to(position, resource)
        # Who has come to the last flavor has, until the scans of the other pod sets have, too. Else two of
        # them could begin anew by turns, for ever.
        ended = came == -1 or not self._fungible
        last = self._last(group)
        index = -1
        for index in range(0 if came is None else came + 1, len(group.flavors)):
            flavor = group.flavors[index]
            if (self._pinned or self._allowed) and (skipped := self._skip(flavor, pod_sets, resource)):
                details.append(skipped)
                continue
            look = self._obstacles(flavor, pod_sets, probe)
            if look is not None:
                details += look[3]
                looks.append(look)
                continue
            if self.old is None and not self.shared and self._fits_at_home(flavor, wanted):
                looks.append((flavor.name, _FIT, 0, (), 0))
                tried = -1 if ended or index >= last else index
                choice = FlavorChoice(flavor.name, Mode.FIT, 0, tried)
                return {res: choice for res, _ in wanted}, [], looks
            marks, outcome, look = self._try(flavor, pod_sets, wanted)
            details += look[3]
            looks.append(look)
            if self._fungible:
                stop = not self._try_next(outcome)
                better = stop or _preferred(outcome, best_outcome, self.plan.spare_borrowing)
            else:
                stop = outcome[0] == _FIT
                better = outcome[0] > best_outcome[0]
            if better:
                best_name, best, best_outcome = flavor.name, marks, outcome
            if stop:
                break
        # -1: all were tried, the next attempt starts at the first.
        tried = -1 if ended or index >= last else index
        chosen = {
            res: FlavorChoice(best_name, _MODE_OF[granular], borrow, tried) for res, granular, borrow in best
        }
        # Not of the outcome alone: where preemption is preferred to borrowing, a resource that borrows counts
        # as worse than another that must preempt, and the flavor as fitting.
        fits = best_outcome[0] == _FIT and all(granular == _FIT for _, granular, _ in best)
        return chosen, ([] if fits else details), looks

    def _last(self, group: GroupPlan) -> int:
        """Return the position of the last flavor that the workload may have, with which a scan ends."""
        last = len(group.flavors) - 1
        if self._allowed:
            while last > 0 and group.flavors[last].name not in self._allowed:
                last -= 1
        return last

    def _came_to(self, position: int, resource: str) -> int | None:
        """Return at which flavor the scan before this one stopped, -1 at the last; None: there was none."""
        assert self._scan is not None
        if not self._fungible or position >= len(self._scan):
            return None
        return self._scan[position].get(resource)

    def judge(
        self, flavor: FlavorPlan, pod_sets: Sequence[PodSet], wanted: Sequence[tuple[str, int]]
    ) -> tuple[dict[str, FlavorChoice], Sequence[Detail], Look]:
        """Judge the only flavor of a group, on which the pods can run; no choice: it does not fit in any way.

        As `find`, with details unless all fits at once.
        """
        marks, outcome, look = self._try(flavor, pod_sets, wanted)
        if outcome[0] == _NO_FIT:
            return {}, look[3], look
        chosen = {
            res: FlavorChoice(flavor.name, _MODE_OF[granular], borrow) for res, granular, borrow in marks
        }
        return chosen, () if all(granular == _FIT for _, granular, _ in marks) else look[3], look

    def _skip(self, flavor: FlavorPlan, pod_sets: Sequence[PodSet], resource: str) -> str:
        name = flavor.name
        if self._pinned and not any(self._pinned.get(ps.name, {}).get(resource) == name for ps in pod_sets):
            return (
                f"skipping flavor {name} as it is not found in the nomination mapping for resource {resource}"
            )
        if self._allowed and name not in self._allowed:
            return f"skipping flavor {name} due to WorkloadAllowedResourceFlavorAnnotation annotation"
        return ""

    def _obstacles(
        self, flavor: FlavorPlan, pod_sets: Sequence[PodSet], probe: Mapping[str, int] | None
    ) -> Look | None:
        """Return why pods cannot run on the flavor, whatever its quota; None when they can."""
        rule = flavor.rule
        known = self._world.flavors.get(flavor.name)
        if rule is None or rule.flavor is not known:
            rule = flavor.current_rule(known)
        if rule is None:
            return flavor.name, _NO_FIT, 0, (f"flavor {flavor.name} not found",), NO_MATCH
        if not rule.open:
            for ps in pod_sets:
                obstacle = rule.obstacle(ps)
                if obstacle:
                    return flavor.name, _NO_FIT, 0, (obstacle,), NO_MATCH
        if probe is not None:
            lacking = tuple(
                (probe_text, fr, probe[res], self._node.potential_available(fr))
                for res, fr in flavor.frs.items()
                if res in probe and self._node.potential_available(fr) < probe[res]
            )
            if lacking:
                return flavor.name, _NO_FIT, 0, lacking, EXCEEDS
        return None

    def _fits_at_home(self, flavor: FlavorPlan, wanted: Sequence[tuple[str, int]]) -> bool:
        """Does all fit without borrowing? The common case, answered without judging each resource."""
        cells = self._node.cells
        usage = self.usage
        for resource, amount in wanted:
            fr = flavor.frs[resource]
            cell = cells.get(fr)
            if cell is None:
                return False
            total = usage.get(fr, 0) + amount
            if cell.usage + total > cell.subtree or cell.available() < total:
                return False
        return True

    def _try(
        self, flavor: FlavorPlan, pod_sets: Sequence[PodSet], wanted: Sequence[tuple[str, int]]
    ) -> tuple[_Marks, _Outcome, Look]:
        """Judge the flavor by the worst of the wanted resources."""
        name = flavor.name
        worst: _Outcome = (_FIT, 0)
        borrowed = severity = 0
        details: list[Detail] = []
        marks: list[tuple[str, int, int]] = []
        for resource, amount in wanted:
            fr = flavor.frs[resource]
            whole = amount
            if self.old is not None:
                amount, original = self._beyond_old(name, pod_sets, resource, amount)
                if original is not None:
                    worst, severity = _WORST, NO_MATCH
                    details.append((slice_text, name, original))
            assumed = self.usage.get(fr, 0)
            granular, borrow, detail, why = self._fits(
                fr, assumed, amount, ask=worst[0] != _NO_FIT, held=whole - amount
            )
            if detail is not None:
                details.append(detail)
                if why > severity:
                    severity = why
            if borrow > borrowed:
                borrowed = borrow
            outcome = (granular, borrow)
            if outcome != worst and _preferred(worst, outcome, self.plan.spare_borrowing):
                worst = outcome
            if worst[0] != _NO_FIT:
                marks.append((resource, granular, borrow))
        return marks, worst, (name, worst[0], borrowed, details, severity)

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
        self, fr: FlavorResource, assumed: int, amount: int, *, ask: bool, held: int = 0
    ) -> tuple[int, int, Detail | None, int]:
        """Return granular mode, borrowing height, reason unless it fits, and the reason's severity.

        `ask`: whether the oracle's answer would still matter. `held`: what these pods have already, by the
        slice that is to be replaced. What could never be had is judged by all that the job would have.
        """
        if amount <= 0 and self.old is not None:
            return _FIT, 0, None, 0  # AX5: what the old slice has is not asked for again
        node = self._node
        total = whole = assumed + amount
        if self.shared and (shared := min(total, self.shared.get(fr, 0))):
            total -= shared
            if not total:
                return _FIT, 0, None, 0
        cell = node.cells.get(fr)
        available = node.available(fr) if cell is None else cell.available()
        quota = node.quotas.get(fr)
        nominal = 0 if quota is None else quota.nominal
        constraint = ""
        others = self._held.get(fr, 0) - held
        if self._cannot_borrow:
            # AX6: such a workload sees nothing beyond its queue's own nominal quota.
            if nominal < whole + held + others <= node.potential_available(fr):
                why = (nominal_exceeded_text, fr, assumed + others, amount + held, nominal)
                return _NO_FIT, 0, why, EXCEEDS
            unused = nominal - node.used(fr)
            if unused < available:
                available, constraint = unused, CANNOT_BORROW
        if total <= available:
            return _FIT, find_height_of_lowest_subtree_that_fits(node, fr, total)[0], None, 0
        most = node.potential_available(fr) if cell is None else cell.potential_available()
        if whole + held + others > most:
            return _NO_FIT, 0, (exceeds_text, fr, assumed + others, amount + held, most), EXCEEDS
        height, may_reclaim = find_height_of_lowest_subtree_that_fits(node, fr, total)
        if asks_nobody(
            nominal, total, may_reclaim=may_reclaim, may_preempt_borrowing=self._preempts_borrowing
        ):
            return _NO_FIT, height, (unused_text, fr, total - available, constraint), WAITING
        if self._cannot_preempt:
            if self.plan.may_preempt:
                constraint += CANNOT_PREEMPT
            return _NO_FIT, height, (unused_text, fr, total - available, constraint), WAITING
        detail = (unused_text, fr, total - available, constraint)
        if not ask:
            return _NO_FIT, height, detail, 0
        possibility, height = self._oracle.possibility(self._cq, self._workload, fr, total)
        if self._cannot_borrow and height:
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
