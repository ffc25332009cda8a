"""Fold of configuration objects into the scheduler's world: queues, cohorts, flavors, settings.

What an object changes decides who is looked at again: edits of a queue, of a flavor that it names, or of
quota anywhere in its tree void the verdicts on its pending workloads (SC2). It is marked (`marks.Edit`) for
`settle_config`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.api import kueue
from sluice.api.core_v1 import Namespace
from sluice.api.meta import ObjectMeta
from sluice.core.quota.fair_share import weight
from sluice.core.quota.manifests import quotas_of
from sluice.core.quota.tree import CohortCycleError
from sluice.core.workload.admission_checks import check_names
from sluice.core.workload.charges import gives_back
from sluice.core.world.activity import awaits_pods, blocks_admission, settings_of_admission
from sluice.core.world.charging import recharge
from sluice.core.world.model import AdmissionCheck, ClusterQueue, LocalQueue, ResourceGroup
from sluice.core.world.pending_preemptions import ANYTIME
from sluice.core.world.reservations import index
from sluice.events.config import ObjectApplied, ObjectDeleted

from . import queue_status
from .marks import Edit
from .state import SchedulerState

_KINDS: dict[str, Any] = {
    "AdmissionCheck": msgspec.json.Decoder(kueue.AdmissionCheck),
    "ClusterQueue": msgspec.json.Decoder(kueue.ClusterQueue),
    "Cohort": msgspec.json.Decoder(kueue.Cohort),
    "Configuration": msgspec.json.Decoder(kueue.Configuration),
    "LocalQueue": msgspec.json.Decoder(kueue.LocalQueue),
    "Namespace": msgspec.json.Decoder(Namespace),
    "ResourceFlavor": msgspec.json.Decoder(kueue.ResourceFlavor),
}


def fold_object(state: SchedulerState, event: ObjectApplied | ObjectDeleted) -> None:
    """Fold one object; kinds that the scheduler does not read change nothing."""
    if isinstance(event, ObjectDeleted):
        delete = _DELETE.get(event.kind)
        if delete is not None:
            delete(state, event.namespace, event.name)
        return
    decoder = _KINDS.get(event.kind)
    if decoder is not None:
        _APPLY[event.kind](state, decoder.decode(event.object))


# ClusterQueue


def apply_cluster_queue(
    state: SchedulerState, manifest: kueue.ClusterQueue, *, terminating: bool = False
) -> None:
    """Create or change a cluster queue; its reservations stay."""
    world = state.world
    name, spec = manifest.metadata.name, manifest.spec
    node = world.tree.set_cluster_queue(
        name, spec.cohort_name, quotas_of(spec.resource_groups), weight(spec.fair_sharing)
    )
    groups = tuple(
        ResourceGroup(tuple(group.covered_resources), tuple(flavor.name for flavor in group.flavors))
        for group in spec.resource_groups
    )
    # Validation refuses a resource in two groups; should one be in the log, the first group counts.
    group_of = {resource: group for group in reversed(groups) for resource in group.covered_resources}
    cq = world.cluster_queues.get(name)
    if cq is None:
        cq = world.cluster_queues[name] = ClusterQueue(name, spec, node, groups, group_of)
        _adopt(state, cq)
        _move_members(state, name)
    else:
        raced = cq.spec.concurrent_admission_policy is not None
        cq.spec, cq.groups, cq.group_of = spec, groups, group_of
        if raced or spec.concurrent_admission_policy is not None:
            _move_members(state, name)  # who is barred, or a parent, may be another one
    cq.terminating = terminating or manifest.metadata.deletion_timestamp is not None
    state.edit(name, Edit.QUOTA | Edit.TREE | Edit.STATUS)


def _adopt(state: SchedulerState, cq: ClusterQueue) -> None:
    """Reservations of a queue that was deleted and made again count in the new one."""
    for workload in state.world.workloads.values():
        if workload.cluster_queue == cq.name and workload.assignment is not None:
            cq.workloads[workload.key] = workload
            state.world.tree.add(cq.node, workload.usage)
    if cq.workloads:
        index(cq)


def delete_cluster_queue(state: SchedulerState, _namespace: str, name: str) -> None:
    if state.world.cluster_queues.pop(name, None) is not None:
        state.world.tree.remove_cluster_queue(name)
        _move_members(state, name)
        state.edit(name, Edit.QUOTA | Edit.STATUS)


def _move_members(state: SchedulerState, cluster_queue: str) -> None:
    """Mark the workloads whose local queue points to *cluster_queue*, in the order of their keys."""
    for local in sorted(state.locals_of.get(cluster_queue, ())):
        _move_members_of_local(state, local)


def _move_members_of_local(state: SchedulerState, local_queue: str) -> None:
    workloads = state.world.workloads
    state.moved += [(workloads[key], False) for key in sorted(state.members.get(local_queue, ()))]


# Cohort


def apply_cohort(state: SchedulerState, manifest: kueue.Cohort) -> None:
    name, spec = manifest.metadata.name, manifest.spec
    state.world.cohorts[name] = spec
    tree = state.world.tree
    left = _queues_below(state, name)
    quotas, share = quotas_of(spec.resource_groups), weight(spec.fair_sharing)
    try:
        tree.set_cohort(name, spec.parent_name, quotas, share)
    except CohortCycleError:
        # The api service refuses these; should one be in the log, the cohort counts as a root.
        tree.set_cohort(name, "", quotas, share)
    _reshaped(state, left | _queues_below(state, name))


def cohort_manifest(name: str, spec: kueue.CohortSpec) -> kueue.Cohort:
    return kueue.Cohort(metadata=ObjectMeta(name=name), spec=spec)


def delete_cohort(state: SchedulerState, _namespace: str, name: str) -> None:
    state.world.cohorts.pop(name, None)
    left = _queues_below(state, name)
    state.world.tree.remove_cohort(name)
    _reshaped(state, left)


def _queues_below(state: SchedulerState, cohort: str) -> set[str]:
    """Return the cluster queues of the tree that a cohort belongs to now."""
    node = state.world.tree.cohorts.get(cohort)
    if node is None:
        return set()
    root = node.root()
    return {name for name, cq in state.world.cluster_queues.items() if cq.node.root() is root}


def _reshaped(state: SchedulerState, queues: set[str]) -> None:
    """A cohort has changed, possibly where it belongs: what its tree was, and is, is looked at again."""
    for name in sorted(queues):
        state.edit(name, Edit.TREE | Edit.VERDICTS)


# LocalQueue, Namespace


def apply_local_queue(state: SchedulerState, manifest: kueue.LocalQueue) -> None:
    key = f"{manifest.metadata.namespace}/{manifest.metadata.name}"
    before = state.world.local_queues.get(key)
    target = manifest.spec.cluster_queue
    if before is not None and before.cluster_queue != target:
        _unlink(state, key, before.cluster_queue)
    state.locals_of.setdefault(target, {})[key] = None
    state.world.local_queues[key] = LocalQueue(key, target, manifest.spec.stop_policy or "None")
    _move_members_of_local(state, key)
    queue_status.refresh_local(state, key)


def delete_local_queue(state: SchedulerState, namespace: str, name: str) -> None:
    key = f"{namespace}/{name}"
    before = state.world.local_queues.pop(key, None)
    if before is not None:
        _unlink(state, key, before.cluster_queue)
    _move_members_of_local(state, key)
    queue_status.refresh_local(state, key)


def _unlink(state: SchedulerState, key: str, cluster_queue: str) -> None:
    linked = state.locals_of.get(cluster_queue, {})
    linked.pop(key, None)
    if not linked:
        state.locals_of.pop(cluster_queue, None)


def apply_namespace(state: SchedulerState, manifest: Namespace) -> None:
    name = manifest.metadata.name
    labels = dict(manifest.metadata.labels)
    if state.world.namespaces.get(name) == labels:
        return
    state.world.namespaces[name] = labels
    _reconsider_namespace(state, name)


def delete_namespace(state: SchedulerState, _namespace: str, name: str) -> None:
    if state.world.namespaces.pop(name, None) is not None:
        _reconsider_namespace(state, name)


def _reconsider_namespace(state: SchedulerState, namespace: str) -> None:
    for key in sorted(state.world.local_queues):
        local = state.world.local_queues[key]
        if key.partition("/")[0] == namespace and local.cluster_queue in state.world.cluster_queues:
            state.edit(local.cluster_queue, Edit.VERDICTS)


# ResourceFlavor, AdmissionCheck, Configuration


def apply_flavor(state: SchedulerState, manifest: kueue.ResourceFlavor) -> None:
    state.world.flavors[manifest.metadata.name] = manifest
    _flavor_changed(state, manifest.metadata.name)


def delete_flavor(state: SchedulerState, _namespace: str, name: str) -> None:
    if state.world.flavors.pop(name, None) is not None:
        _flavor_changed(state, name)


def _flavor_changed(state: SchedulerState, flavor: str) -> None:
    for name in sorted(state.world.cluster_queues):
        cq = state.world.cluster_queues[name]
        if any(flavor in group.flavors for group in cq.groups):
            state.edit(name, Edit.STATUS | Edit.VERDICTS)


def apply_check(state: SchedulerState, manifest: kueue.AdmissionCheck) -> None:
    name = manifest.metadata.name
    before = state.world.checks.get(name)
    active = before.active if before is not None else True
    state.world.checks[name] = AdmissionCheck(
        manifest.spec.controller_name, active, manifest.spec.preemption_policy or ANYTIME
    )
    check_changed(state, name)


def delete_check(state: SchedulerState, _namespace: str, name: str) -> None:
    if state.world.checks.pop(name, None) is not None:
        check_changed(state, name)


def check_changed(state: SchedulerState, check: str) -> None:
    """The check has come, gone, or changed whether it is active."""
    for name in sorted(state.world.cluster_queues):
        if check in check_names(state.world.cluster_queues[name].spec):
            state.edit(name, Edit.STATUS)


def apply_configuration(state: SchedulerState, manifest: kueue.Configuration) -> None:
    _configure(state, manifest.spec)


def delete_configuration(state: SchedulerState, _namespace: str, _name: str) -> None:
    _configure(state, kueue.ConfigurationSpec())


def _configure(state: SchedulerState, spec: kueue.ConfigurationSpec) -> None:
    """Take new settings. Those of admission reach everywhere, so everything that waits is looked at again."""
    world, before = state.world, state.world.config
    world.config = spec
    if settings_of_admission(spec) == settings_of_admission(before):
        return
    state.not_ready.clear()
    for key in sorted(world.workloads):
        workload = world.workloads[key]
        if blocks_admission(spec) and awaits_pods(workload):
            state.not_ready[key] = None  # also of those that were admitted when it did not count
        if workload.reclaimable and gives_back(spec) != gives_back(before):
            recharge(world, workload)
        state.moved.append((workload, True))
    for name in sorted(world.cluster_queues):
        state.edit(name, Edit.VERDICTS)


_APPLY: dict[str, Callable[[SchedulerState, Any], None]] = {
    "AdmissionCheck": apply_check,
    "ClusterQueue": apply_cluster_queue,
    "Cohort": apply_cohort,
    "Configuration": apply_configuration,
    "LocalQueue": apply_local_queue,
    "Namespace": apply_namespace,
    "ResourceFlavor": apply_flavor,
}

_DELETE: dict[str, Callable[[SchedulerState, str, str], None]] = {
    "AdmissionCheck": delete_check,
    "ClusterQueue": delete_cluster_queue,
    "Cohort": delete_cohort,
    "Configuration": delete_configuration,
    "LocalQueue": delete_local_queue,
    "Namespace": delete_namespace,
    "ResourceFlavor": delete_flavor,
}
