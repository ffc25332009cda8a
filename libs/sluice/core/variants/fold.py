"""How each event changes the variant-controller's state. No choices are left here."""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.api.labels import CONCURRENT_ADMISSION_PARENT
from sluice.core.workload.additions import answered, asked
from sluice.core.workload.deactivation import is_overtaken
from sluice.core.workload.reasons import (
    ADMISSION_CHECK,
    CONCURRENT_ADMISSION,
    FLAVOR_MIGRATION,
    JOB_DELETED,
    NO_MATCHING_WORKLOAD,
)
from sluice.core.world.preemption_turns import gate_moved
from sluice.events import checks, scheduler, slices, variants
from sluice.events.base import Event, Micros, WorkloadKey

from .fold_config import CONFIG_HANDLERS
from .state import Family, State, Variant, within

# Parents


def _created(state: State, event: slices.WorkloadCreated, seq: int, _at: Micros) -> None:
    record = event.workload
    key = record.key
    if record.parent is not None or key in state.families:
        return
    family = Family(record, key, record.created_at, active=record.active)
    state.families[key] = family
    _join(state, family)
    state.touch(family, seq)


def _join(state: State, family: Family) -> None:
    record = family.record
    state.by_queue.setdefault(f"{record.namespace}/{record.queue_name}", {})[family.key] = None


def _leave(state: State, family: Family) -> None:
    record = family.record
    local = f"{record.namespace}/{record.queue_name}"
    members = state.by_queue.get(local)
    if members is not None:
        members.pop(family.key, None)
        if not members:
            del state.by_queue[local]


def _updated(state: State, event: slices.WorkloadUpdated, seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is None:
        return
    changes = event.changes
    _leave(state, family)
    family.record = msgspec.structs.replace(family.record, **changes)
    family.changes += event.pod_sets is not None
    _join(state, family)
    if event.active is not None:
        family.switched_by = event.cause
        if event.active and not family.active:
            # Whoever starts it again means it.
            for variant in family.variants.values():
                variant.rejected = False
                variant.failed = variant.failed_message = ""
        family.active = event.active
    state.touch(family, seq)


def _gone(
    state: State,
    event: slices.WorkloadFinished | slices.WorkloadDeleted | scheduler.WorkloadSliceReplaced,
    _seq: int,
    _at: Micros,
) -> None:
    """Its variants go with it."""
    family = state.families.pop(event.workload, None)
    if family is None:
        return
    _leave(state, family)
    for key in family.variants:
        state.of_variant.pop(key, None)
    state.altered(family)
    state.todo.pop(family.key, None)
    state.deadlines.set(family.key, None)


def _stopped(state: State, event: slices.WorkloadStopped, seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is None:
        return
    if family.running is not None:
        family.stopped = True
        family.stopped_reason, family.stopped_message = event.reason, event.message
        state.touch(family, seq)
    elif family.runs_alone:
        family.runs_alone = False
        state.touch(family, seq)


def _suspended(state: State, event: slices.JobSuspended, seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is not None and event.reason in (JOB_DELETED, NO_MATCHING_WORKLOAD):
        family.ending = True
        state.touch(family, seq)


def _pods_ready(state: State, event: slices.WorkloadPodsReady, seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is not None and family.running is not None:
        family.ready = event.ready
        state.touch(family, seq)


def _reclaimable(state: State, event: slices.ReclaimablePodsUpdated, seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is not None and family.running is not None:
        family.reclaimed = dict(event.pods)
        state.touch(family, seq)


# What the scheduler and the checks say of variants


def _find(state: State, key: WorkloadKey) -> tuple[Family, Variant] | None:
    family = state.of_variant.get(key)
    return None if family is None else (family, family.variants[key])


def _reserved(state: State, event: scheduler.QuotaReserved, seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is None:
        _holds(state, event.workload, True, seq)
        return
    family, variant = found
    variant.cluster_queue = event.cluster_queue
    variant.assignment, variant.observed = tuple(event.pod_sets), event.observed_generation
    if not within(variant.assignment, variant.record.allowed_flavors):
        state.altered(family)
    variant.evaluated, variant.blocked, variant.backs_off = True, False, False
    variant.promised = event.preemptions_pending
    variant.evicted = variant.stopped = variant.ready = False
    variant.reclaimed = {}
    state.touch(family, seq)


def _held_up(
    state: State,
    event: scheduler.RequeueBackoffStarted | scheduler.PendingPreemptionsIssued,
    seq: int,
    _at: Micros,
) -> None:
    found = _find(state, event.workload)
    if found is not None:
        found[1].promised = False
        found[1].backs_off |= isinstance(event, scheduler.RequeueBackoffStarted)
        state.touch(found[0], seq)


def _requeued(state: State, event: scheduler.Requeued, seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is not None and found[1].backs_off:
        found[1].backs_off = False
        _joins_queue(*found)
        state.touch(found[0], seq)


def _holds(state: State, key: WorkloadKey, holds: bool, seq: int) -> None:
    family = state.families.get(key)
    if family is not None:
        family.holds = holds
        family.runs_alone = family.makes_way = False
        state.touch(family, seq)


def _admitted(state: State, event: scheduler.Admitted, seq: int, at: Micros) -> None:
    found = _find(state, event.workload)
    if found is not None:
        family, variant = found
        variant.admitted_at = at
        if variant.gate_at is not None or family.admitted_at is not None:
            # It has got in, or taken over: whatever is better still may try to preempt in its turn (CA11).
            family.close_gates = _any_gate(family)
        state.touch(family, seq)
        return
    alone = state.families.get(event.workload)
    if alone is not None:
        alone.runs_alone = True


def _evicted(state: State, event: scheduler.Evicted, seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is None:
        _makes_way(state, event, seq)
        return
    family, variant = found
    variant.evicted = True
    variant.evicted_reason, variant.evicted_message = event.reason, event.message
    variant.evaluated = variant.blocked = False
    if event.reason != FLAVOR_MIGRATION:
        # Who takes over keeps its gate until it is there, or what it has preempted for would be others'.
        family.close_gates = _any_gate(family)
    state.touch(family, seq)


def _makes_way(state: State, event: scheduler.Evicted, seq: int) -> None:
    """A workload is evicted from quota of its own, for its variants' sake or not."""
    family = state.families.get(event.workload)
    if family is not None:
        family.makes_way = event.reason == CONCURRENT_ADMISSION
        state.touch(family, seq)


def _any_gate(family: Family) -> bool:
    return any(variant.gate_at is not None for variant in family.variants.values())


def _released(state: State, event: scheduler.QuotaReleased, seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is None:
        _holds(state, event.workload, False, seq)
        return
    family, variant = found
    variant.assignment = variant.admitted_at = None
    variant.promised = False
    variant.evicted = variant.stopped = variant.ready = False
    variant.updates, variant.reclaimed = None, {}
    state.touch(family, seq)


def _failed(state: State, event: scheduler.WorkloadDeactivated, seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is None:
        _switched_off(state, event, seq)
        return
    family, variant = found
    if variant.active and is_overtaken(event, variant.switched_by):
        return  # The scheduler will switch it on again when it hears of that.
    variant.active = False
    if event.reason == ADMISSION_CHECK:
        variant.rejected = True
    variant.failed, variant.failed_message = event.reason, event.message
    state.touch(family, seq)


def _looked_at(state: State, key: WorkloadKey, seq: int, *, blocked: bool = False) -> None:
    found = _find(state, key)
    if found is not None and not (found[1].evaluated and found[1].blocked >= blocked):
        family, variant = found
        variant.evaluated = True
        variant.blocked = variant.blocked or blocked
        state.touch(family, seq)


def _parked(state: State, event: scheduler.WorkloadsParked, seq: int, _at: Micros) -> None:
    for key in event.workloads:
        _looked_at(state, key, seq)


def _blocked(state: State, event: scheduler.BlockedOnPreemptionGates, seq: int, _at: Micros) -> None:
    for key in event.after:
        _looked_at(state, key, seq)
    _looked_at(state, event.workload, seq, blocked=True)


def _verdict(
    state: State, event: scheduler.PreemptionIssued | scheduler.FlavorScanAdvanced, seq: int, _at: Micros
) -> None:
    _looked_at(state, event.workload, seq)


def _checks_requested(state: State, event: checks.ChecksRequested, _seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is not None and found[1].admitted_at is None:
        found[1].updates = asked(found[1].updates, event)


def _check(state: State, event: checks.CheckStateChanged, _seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is not None and found[1].admitted_at is None:
        answered(found[1].updates, event)


# Its own


def _marked(
    state: State, event: variants.ParentMarked | variants.ParentUnmarked, _seq: int, _at: Micros
) -> None:
    family = state.families.get(event.workload)
    if family is None:
        return
    family.marked = isinstance(event, variants.ParentMarked)
    labels = {k: v for k, v in family.record.labels.items() if k != CONCURRENT_ADMISSION_PARENT}
    if family.marked:
        labels[CONCURRENT_ADMISSION_PARENT] = "true"
    family.record = msgspec.structs.replace(family.record, labels=labels)
    state.touch(family, event.cause)


def _variant_created(state: State, event: variants.VariantCreated, _seq: int, _at: Micros) -> None:
    record = event.workload
    family = state.families.get(record.parent) if record.parent is not None else None
    state.made += 1
    if family is None:
        return
    variant = family.variants[record.key] = Variant(record, event.variant, active=record.active)
    family.arrange()
    state.altered(family)
    _joins_queue(family, variant)
    state.of_variant[record.key] = family
    state.touch(family, event.cause)


def _variant_updated(state: State, event: variants.VariantUpdated, _seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is None:
        return
    changes = {
        name: value
        for name in event.__struct_fields__
        if name not in ("cause", "workload") and (value := getattr(event, name)) is not None
    }
    found[1].record = msgspec.structs.replace(found[1].record, **changes)
    found[1].changes += event.pod_sets is not None
    state.altered(found[0])
    if event.preference is not None:
        found[0].arrange()
    state.touch(found[0], event.cause)


def _activated(
    state: State, event: variants.VariantActivated | variants.VariantDeactivated, _seq: int, _at: Micros
) -> None:
    found = _find(state, event.workload)
    if found is not None:
        found[1].active, found[1].switched_by = isinstance(event, variants.VariantActivated), event.cause
        found[1].evaluated = found[1].blocked = found[1].backs_off = False
        _joins_queue(*found)
        state.touch(found[0], event.cause)


def _joins_queue(family: Family, variant: Variant) -> None:
    """It stands before others, of which the scheduler will say again that they are blocked (CA11)."""
    if variant.active:
        for other in family.variants.values():
            if other.record.preference > variant.record.preference:
                other.blocked = False


def _gate(
    state: State, event: variants.PreemptionGateOpened | variants.PreemptionGateClosed, _seq: int, at: Micros
) -> None:
    found = _find(state, event.workload)
    if found is None:
        return
    family, variant = found
    gate_moved(variant, family.variants.values(), event)
    if isinstance(event, variants.PreemptionGateOpened):
        variant.gate_at = at
        variant.blocked = False
    else:
        variant.gate_at = None
        family.close_gates = family.close_gates and _any_gate(family)
        if event.spent:
            _leave_it_to_others(family, variant, at)
    state.touch(family, event.cause)


def _leave_it_to_others(family: Family, variant: Variant, at: Micros) -> None:
    """Its turn is over: those behind it stand back no more, and are looked at again (CA11)."""
    family.closed_at = at
    for other in family.variants.values():
        if other.record.preference > variant.record.preference and not (other.spent or other.blocked):
            other.evaluated = False


def _variant_ready(state: State, event: variants.VariantPodsReady, _seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is not None:
        found[1].ready = event.ready


def _variant_reclaimed(state: State, event: variants.VariantPodsReclaimed, _seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is not None:
        found[1].reclaimed = dict(event.pods)


def _variant_stopped(state: State, event: variants.VariantStopped, _seq: int, _at: Micros) -> None:
    found = _find(state, event.workload)
    if found is not None:
        found[1].stopped = True
        state.touch(found[0], event.cause)


def _variant_deleted(state: State, event: variants.VariantDeleted, _seq: int, _at: Micros) -> None:
    family = state.of_variant.pop(event.workload, None)
    if family is not None:
        name = family.variants.pop(event.workload).name
        family.deleted[name] = family.deleted.get(name, 0) + 1
        state.altered(family)
        state.touch(family, event.cause)


def _parent_admitted(state: State, event: variants.ParentAdmitted, _seq: int, at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is None:
        return
    family.running = event.variant
    family.leaving = family.stopped = family.ready = False
    family.reclaimed = {}
    if family.admitted_at is None:
        family.admitted_at = at
    state.touch(family, event.cause)


def _parent_evicted(state: State, event: variants.ParentEvicted, _seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is not None:
        family.leaving = True
        family.leaving_reason, family.leaving_message = event.reason, event.message
        state.touch(family, event.cause)


def _parent_released(state: State, event: variants.ParentReleased, _seq: int, at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is None:
        return
    family.running = None
    family.leaving = family.stopped = family.ready = False
    family.stopped_reason = family.stopped_message = ""
    family.leaving_reason = family.leaving_message = ""
    if event.reset:
        family.since = at
        family.admitted_at = None
    state.touch(family, event.cause)


def _parent_deactivated(state: State, event: variants.ParentDeactivated, _seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is not None:
        family.active = False
        state.touch(family, event.cause)


def _switched_off(state: State, event: scheduler.WorkloadDeactivated, seq: int) -> None:
    """A workload that is no variant, and may become a parent later."""
    family = state.families.get(event.workload)
    if family is not None and not is_overtaken(event, family.switched_by):
        family.active = False
        state.touch(family, seq)


HANDLERS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    **CONFIG_HANDLERS,
    scheduler.Admitted: _admitted,
    scheduler.BlockedOnPreemptionGates: _blocked,
    checks.CheckStateChanged: _check,
    checks.ChecksRequested: _checks_requested,
    scheduler.Evicted: _evicted,
    scheduler.FlavorScanAdvanced: _verdict,
    slices.JobSuspended: _suspended,
    variants.ParentAdmitted: _parent_admitted,
    variants.ParentDeactivated: _parent_deactivated,
    variants.ParentEvicted: _parent_evicted,
    variants.ParentMarked: _marked,
    variants.ParentReleased: _parent_released,
    variants.ParentUnmarked: _marked,
    variants.PreemptionGateClosed: _gate,
    variants.PreemptionGateOpened: _gate,
    scheduler.PendingPreemptionsIssued: _held_up,
    scheduler.PreemptionIssued: _verdict,
    scheduler.QuotaReleased: _released,
    scheduler.RequeueBackoffStarted: _held_up,
    scheduler.Requeued: _requeued,
    scheduler.QuotaReserved: _reserved,
    slices.ReclaimablePodsUpdated: _reclaimable,
    variants.VariantActivated: _activated,
    variants.VariantCreated: _variant_created,
    variants.VariantDeactivated: _activated,
    variants.VariantDeleted: _variant_deleted,
    variants.VariantPodsReady: _variant_ready,
    variants.VariantPodsReclaimed: _variant_reclaimed,
    variants.VariantStopped: _variant_stopped,
    variants.VariantUpdated: _variant_updated,
    slices.WorkloadCreated: _created,
    scheduler.WorkloadDeactivated: _failed,
    slices.WorkloadDeleted: _gone,
    slices.WorkloadFinished: _gone,
    scheduler.WorkloadSliceReplaced: _gone,
    slices.WorkloadPodsReady: _pods_ready,
    slices.WorkloadStopped: _stopped,
    slices.WorkloadUpdated: _updated,
    scheduler.WorkloadsParked: _parked,
}
