"""Membership of a family: the variants that its queue's policy asks for and the job allows (CA4, CA13).

Whatever is edited in a queue, it comes down to this for each variant: it is missing, it is not wanted any
more, it stands in another place, or its flavors are others. In the last case what holds quota within the new
flavors keeps it; any other variant is made anew, and what runs stops first.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from sluice.api.labels import (
    ALLOWED_RESOURCE_FLAVORS,
    CONCURRENT_ADMISSION_PARENT,
    GATE_CONCURRENT_ADMISSION,
)
from sluice.core.workload.reasons import CONCURRENT_ADMISSION
from sluice.core.world.variant_policy import VariantPolicy, Wanted, restricted
from sluice.events.base import Event, WorkloadKey
from sluice.events.ids import uid
from sluice.events.slices import WorkloadRecord
from sluice.events.variants import ParentEvicted, ParentMarked, VariantCreated, VariantDeleted, VariantUpdated

from .naming import variant_name
from .state import Family, State, Variant, within

NO_VARIANT: Final = "No variant is running"

_UID_SPACE: Final = 0x8000_0000_0000
"""Indexes of variants' uids; those of the objects of the slice-aggregator are below."""


def membership(state: State, family: Family, policy: VariantPolicy) -> list[Event]:
    """Return what makes the variants those that the family should have; [] if they are, or it must wait."""
    if family.marked and state.whole.get(family.key) is policy:
        return []
    events: list[Event] = []
    if not family.marked:
        events.append(ParentMarked(cause=family.cause, workload=family.key))
    wanted = restricted(policy, family.record.allowed_flavors)
    by_name = {each.name: (preference, each) for preference, each in wanted.items()}
    is_whole = len(family.variants) == len(wanted)
    for variant in family.variants.values():
        place = by_name.get(variant.name)
        if place is None:
            found = _remove(family, variant, _why_gone(policy, variant))
        else:
            found = _fitted(policy, family, variant, *place)
        is_whole = is_whole and place is not None and not found and _agrees(variant, place[1])
        events += found
    made = state.made
    for preference, each in wanted.items():
        if family.named(each.name) is None:
            record = _record(family, each, preference, uid(family.cause, _UID_SPACE + made))
            made += 1
            message = f'Variant Workload "{record.key}" created'
            events.append(
                VariantCreated(cause=family.cause, workload=record, variant=each.name, message=message)
            )
    if is_whole and not events:
        state.whole[family.key] = policy
    return events


def _fitted(
    policy: VariantPolicy, family: Family, variant: Variant, preference: int, wanted: Wanted
) -> list[Event]:
    """Return what makes the variant the one that is wanted under its name."""
    changes: dict[str, Any] = {}
    if variant.record.preference != preference:
        changes["preference"] = preference
    if not _agrees(variant, wanted):
        if variant.assignment is None or not within(variant.assignment, wanted.flavors):
            return _remove(family, variant, _why_gone(policy, variant))
        # What it has is still allowed: it goes on, and has the other flavors when it queues again.
        changes["allowed_flavors"] = wanted.flavors
        changes["annotations"] = {
            **variant.record.annotations,
            ALLOWED_RESOURCE_FLAVORS: ",".join(wanted.flavors),
        }
    return [VariantUpdated(cause=family.cause, workload=variant.key, **changes)] if changes else []


def _agrees(variant: Variant, wanted: Wanted) -> bool:
    """May the variant use the wanted flavors, and has it none but these?

    The scheduler may have given it another one before it heard of the flavors that it has now.
    """
    flavors = tuple(variant.record.allowed_flavors)
    return flavors == wanted.flavors and (
        variant.assignment is None or within(variant.assignment, wanted.flavors)
    )


def shared_metadata(parent: WorkloadRecord, flavors: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return labels and annotations of a variant: its parent's, but for what each of them says of itself."""
    labels = {k: v for k, v in parent.labels.items() if k != CONCURRENT_ADMISSION_PARENT}
    return labels, {**parent.annotations, ALLOWED_RESOURCE_FLAVORS: ",".join(flavors)}


def _record(family: Family, wanted: Wanted, preference: int, new_uid: str) -> WorkloadRecord:
    parent = family.record
    labels, annotations = shared_metadata(parent, wanted.flavors)
    return msgspec.structs.replace(
        parent,
        name=variant_name(parent.name, parent.uid, wanted.name, family.deleted.get(wanted.name, 0)),
        uid=new_uid,
        job=None,
        active=family.active and not wanted.create_delay_s,
        preemption_gates=(*parent.preemption_gates, GATE_CONCURRENT_ADMISSION),
        allowed_flavors=wanted.flavors,
        labels=labels,
        annotations=annotations,
        parent=family.key,
        parent_uid=parent.uid,
        preference=preference,
        replaces=None,
        mapping=None,
    )


def _why_gone(policy: VariantPolicy, variant: Variant) -> str:
    """Return what has become of a variant that is not what the queue asks for."""
    if policy.named(variant.name) is not None:
        return f'variant "{variant.name}" has other flavors in ClusterQueue'
    kind = "flavor" if tuple(variant.record.allowed_flavors) == (variant.name,) else "variant"
    return f'{kind} "{variant.name}" no longer in ClusterQueue'


def _remove(family: Family, variant: Variant, why: str) -> list[Event]:
    """Return the end of a variant, but not before its job has stopped (CA13, G9)."""
    if family.running != variant.key:
        return [delete(family, variant, why)]
    if family.leaving:
        return []
    why = f'{why} "{variant.cluster_queue}"'
    return [evict(family, variant.key, CONCURRENT_ADMISSION, NO_VARIANT, cause_message=why)]


def delete(family: Family, variant: Variant, why: str) -> VariantDeleted:
    message = f'Variant Workload "{variant.key}" deleted; {why or "no concurrent admission any more"}'
    return VariantDeleted(cause=family.cause, workload=variant.key, parent=family.key, message=message)


def evict(
    family: Family,
    variant: WorkloadKey,
    reason: str,
    message: str,
    cause_reason: str = "",
    cause_message: str = "",
) -> ParentEvicted:
    return ParentEvicted(
        cause=family.cause,
        workload=family.key,
        variant=variant,
        reason=reason,
        message=message,
        cause_reason=cause_reason,
        cause_message=cause_message,
    )
