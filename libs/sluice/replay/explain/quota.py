"""Quota that a pending workload asks for, and what there is of it (DB2)."""

from typing import Any

from sluice.api.quantity import format_value, resource_value
from sluice.core.flavors.eligibility import FlavorRule
from sluice.core.quota.tree import FlavorResource
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.charges import given_back
from sluice.core.world.model import ClusterQueue
from sluice.core.world.variants import allowed_flavors, family_usage
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import charged, replaced_slice
from sluice.events.base import PodSetAssignment
from sluice.replay.views.pending_preemptions import at_hand

from .report import Numbers, Report

SHOWN = 20
"""Candidates listed per cause."""


def add_numbers(state: SchedulerState, workload: Workload, cq: ClusterQueue, report: Report) -> None:
    node = cq.node
    old = replaced_slice(state.world, workload)
    had = {} if old is None else {a.name: a for a in charged(state.world, old)}
    siblings = family_usage(state.world, workload, cq.name)
    ended = given_back(state.world.config, workload.reclaimable)
    for pod_set in workload.record.pod_sets:
        # A slice is charged only for what it has beyond the one that it replaces (WS3).
        before = had.get(pod_set.name)
        needed = pod_set.count - ended.get(pod_set.name, 0)
        count = max(0, needed - (0 if before is None else before.count))
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
                        obstacle=obstacle_of(state, workload, name, pod_set) or _kept(old, before, fr),
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


def _kept(old: Workload | None, before: PodSetAssignment | None, fr: FlavorResource) -> str:
    """Return why pods of a slice may not run on a flavor: those of the old one keep theirs (WS5)."""
    kept = None if before is None else before.flavors.get(fr[1])
    if kept in (None, fr[0]):
        return ""
    have = "run on" if old is None or old.admitted_at is not None else "have reserved"
    return f"flavor {fr[0]}: its pods {have} {kept}, and keep to it"
