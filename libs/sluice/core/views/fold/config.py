"""Fold of configuration, and of what the scheduler says of queues."""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.api import kueue
from sluice.core.quota.tree import closes_a_cycle
from sluice.core.views.equivalence import class_key
from sluice.core.views.holding import recharge_all
from sluice.core.views.records import ActiveState, LocalQueueView
from sluice.core.views.state import State
from sluice.core.workload.charges import gives_back
from sluice.core.world.activity import settings_of_admission
from sluice.core.world.inadmissible import stopped
from sluice.events.base import Event, Micros
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.scheduler import ClusterQueueStatusChanged, LocalQueueStatusChanged

_CONFIG_TYPES: dict[str, Any] = {
    "ClusterQueue": kueue.ClusterQueue,
    "LocalQueue": kueue.LocalQueue,
    "Cohort": kueue.Cohort,
    "Configuration": kueue.Configuration,
}


def _applied(state: State, event: ObjectApplied, seq: int, _at: Micros) -> None:
    kind = _CONFIG_TYPES.get(event.kind)
    if kind is None:
        return
    manifest = msgspec.json.decode(event.object, type=kind)
    match manifest:
        case kueue.ClusterQueue():
            queue = state.cluster_queue(event.name)
            queue.spec, queue.changed_seq = manifest.spec, seq
            queue.terminating = manifest.metadata.deletion_timestamp is not None
        case kueue.LocalQueue():
            local = state.local_queue(f"{event.namespace}/{event.name}")
            if _moves(local.spec, manifest.spec):
                _forget(state, local)
                local.changed_seq = seq
            _detach(state, local)
            local.spec = manifest.spec
            queue = local.cluster_queue = state.cluster_queue(manifest.spec.cluster_queue)
            queue.local_queues[local.key] = local
            queue.order = None
        case kueue.Cohort():
            spec = manifest.spec
            if closes_a_cycle(event.name, spec.parent_name, lambda name: _parent_of(state, name)):
                # The api service refuses these; should one be in the log, it counts as a root (SC3).
                spec = msgspec.structs.replace(spec, parent_name="")
            state.cohorts[event.name] = spec
        case kueue.Configuration():
            _configure(state, manifest.spec, seq)


def _parent_of(state: State, cohort: str) -> str:
    spec = state.cohorts.get(cohort)
    return "" if spec is None else spec.parent_name


def _object_deleted(state: State, event: ObjectDeleted, seq: int, _at: Micros) -> None:
    match event.kind:
        case "ClusterQueue":
            queue = state.cluster_queue(event.name)
            queue.spec, queue.changed_seq, queue.active = None, seq, None
            state.drop_queue_if_unused(queue)
        case "LocalQueue":
            local = state.local_queue(f"{event.namespace}/{event.name}")
            _forget(state, local)
            _detach(state, local)
            local.spec, local.changed_seq, local.active = None, seq, None
            state.drop_if_unused(local)
        case "AdmissionCheck":
            state.checks.pop(event.name, None)
        case "Cohort":
            state.cohorts.pop(event.name, None)
        case "Configuration":
            _configure(state, kueue.ConfigurationSpec(), seq)


def _configure(state: State, spec: kueue.ConfigurationSpec, seq: int) -> None:
    before, state.config = state.config, spec
    if settings_of_admission(spec) != settings_of_admission(before):
        state.settings_seq = seq
    if gives_back(spec) != gives_back(before):
        recharge_all(state)


def _moves(old: kueue.LocalQueueSpec | None, new: kueue.LocalQueueSpec) -> bool:
    """Do workloads come to a cluster queue, or leave it? Else they are not looked at anew."""
    before = None if old is None else (old.cluster_queue, stopped(old.stop_policy))
    return before != (new.cluster_queue, stopped(new.stop_policy))


def _forget(state: State, local: LocalQueueView) -> None:
    """Forget what was said of those that leave the cluster queue, unless others wait by the same verdict."""
    queue = local.cluster_queue
    if queue is None or not queue.verdicts or not local.pending:
        return
    left = {class_key(state, state.workloads[key]): None for key in local.pending}
    for other in queue.local_queues.values():
        if other is local or other.spec is None or stopped(other.spec.stop_policy):
            continue
        for key in other.pending:
            left.pop(class_key(state, state.workloads[key]), None)
            if not left:
                return
    for said in left:
        queue.verdicts.pop(said, None)


def _detach(state: State, local: LocalQueueView) -> None:
    queue, local.cluster_queue = local.cluster_queue, None
    if queue is not None:
        queue.local_queues.pop(local.key, None)
        queue.order = None
        state.drop_queue_if_unused(queue)


def _cluster_queue_status(state: State, event: ClusterQueueStatusChanged, _seq: int, at: Micros) -> None:
    queue = state.cluster_queues.get(event.cluster_queue)
    if queue is not None:
        queue.active = _active(queue.active, event, at)


def _local_queue_status(state: State, event: LocalQueueStatusChanged, _seq: int, at: Micros) -> None:
    queue = state.local_queues.get(event.local_queue)
    if queue is not None:
        queue.active = _active(queue.active, event, at)


def _active(
    before: ActiveState | None, event: ClusterQueueStatusChanged | LocalQueueStatusChanged, at: Micros
) -> ActiveState:
    since = before.since if before is not None and before.active == event.active else at
    return ActiveState(event.active, event.reason, event.message, since)


CONFIG_FOLDS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    ClusterQueueStatusChanged: _cluster_queue_status,
    LocalQueueStatusChanged: _local_queue_status,
    ObjectApplied: _applied,
    ObjectDeleted: _object_deleted,
}
