"""Fold of the variant-controller's own events: variants come, change and go."""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.events import variants
from sluice.events.base import Event, Micros

from .fold_turns import joins_queue
from .state import State, Variant


def _variant_created(state: State, event: variants.VariantCreated, _seq: int, _at: Micros) -> None:
    record = event.workload
    family = state.families.get(record.parent) if record.parent is not None else None
    state.made += 1
    if family is None:
        return
    variant = family.variants[record.key] = Variant(record, event.variant, active=record.active)
    family.arrange()
    state.altered(family)
    joins_queue(family, variant)
    state.of_variant[record.key] = family
    state.touch(family, event.cause)


def _variant_updated(state: State, event: variants.VariantUpdated, _seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
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
    found = state.find(event.workload)
    if found is not None:
        found[1].active, found[1].switched_by = isinstance(event, variants.VariantActivated), event.cause
        found[1].evaluated = found[1].blocked = found[1].backs_off = False
        joins_queue(*found)
        state.touch(found[0], event.cause)


def _variant_ready(state: State, event: variants.VariantPodsReady, _seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
    if found is not None:
        found[1].ready = event.ready


def _variant_reclaimed(state: State, event: variants.VariantPodsReclaimed, _seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
    if found is not None:
        found[1].reclaimed = dict(event.pods)


def _variant_stopped(state: State, event: variants.VariantStopped, _seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
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


VARIANT_HANDLERS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    variants.VariantActivated: _activated,
    variants.VariantCreated: _variant_created,
    variants.VariantDeactivated: _activated,
    variants.VariantDeleted: _variant_deleted,
    variants.VariantPodsReady: _variant_ready,
    variants.VariantPodsReclaimed: _variant_reclaimed,
    variants.VariantStopped: _variant_stopped,
    variants.VariantUpdated: _variant_updated,
}
