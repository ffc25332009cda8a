"""Decisions on one family: its variants, those that may race, and its parent.

`family_events` returns the next events of a family, () when it is settled until `family_deadline`. It looks
at one thing after the other, and stops at the first that must be settled before the next can be judged:

1. the parent's mark and the variants that are missing or stale (CA4, CA13);
2. the eviction handshake: the job must stop before the variant's quota is given back (G9, CA10);
3. activation and deactivation by policy and delays (CA9, CA12);
4. the parent's admission (CA7), and what goes from the parent to its variants;
5. preemption gates (CA11).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from sluice.core.timing import MICROS_PER_S
from sluice.core.workload.additions import by_check
from sluice.core.workload.reasons import CONCURRENT_ADMISSION, PREEMPTED, VARIANT_DEACTIVATED
from sluice.core.world.variant_policy import VariantPolicy, Wanted
from sluice.events import variants
from sluice.events.base import Event, Micros

from .activity import delete_due, desired, parent_inactive
from .gates import gate_deadline, gates
from .membership import NO_VARIANT, delete, evict, membership, shared_metadata
from .state import Family, State, Variant

VARIANT_EVICTED: Final = "VariantEvicted"
VARIANT_EVICTED_MESSAGE: Final = "Admitted variant was evicted"


def family_events(state: State, family: Family, at: Micros) -> list[Event]:
    """Return what happens next to the family at *at*; [] if nothing."""
    policy = state.policy_of(family)
    if policy is None:
        if not family.marked:
            return []
        return _unmark(family) if state.is_ordinary(family) else _without_queue(state, family)
    if family.must_stop:
        return []  # the scheduler has it stop first
    events = _ended(family) if family.ending else membership(state, family, policy)
    if events:
        return events
    events = _handshake(family)
    if events or family.leaving:
        return events
    events = _outdated(state, family)
    if events:
        return events
    events = _spread(state, family)
    events += _switch(family, policy, at)
    if any(isinstance(event, variants.ParentDeactivated) for event in events):
        return events
    events += _admit(family)
    # Whose turn it is to preempt depends on who is active.
    return events or gates(family, at, state.config.preemption_gate_timeout_seconds * MICROS_PER_S)


def family_deadline(state: State, family: Family, after: Micros = 0) -> Micros | None:
    """Return when `family_events` of a settled family will return something of its own accord.

    *after*: the time at which it was settled, if that is known.
    """
    policy = state.policy_of(family)
    if policy is None or family.leaving:
        return None
    times, seen = [], max(after, family.changed_at)
    for variant in family.variants.values():
        wanted = policy.named(variant.name)
        if wanted is None or not (wanted.create_delay_s or wanted.delete_delay_s is not None):
            continue
        due = delete_due(family, wanted) if variant.active else _create_due(family, wanted)
        # What was due before it was looked at last is decided. It is judged as of that time, not of the end:
        # who comes for its createDelaySeconds may go again for its deleteDelaySeconds.
        if due is None or due <= seen:
            continue
        if desired(family, policy, variant, due)[0] != variant.active:
            times.append(due)
    timeout = state.config.preemption_gate_timeout_seconds * MICROS_PER_S
    times += [due for due in [gate_deadline(family, timeout)] if due is not None]
    return min(times, default=None)


def _create_due(family: Family, wanted: Wanted) -> Micros | None:
    """Return when this variant may come, None if that is not a matter of time (CA12)."""
    return family.since + wanted.create_delay_s * MICROS_PER_S if wanted.create_delay_s else None


# Without a policy


def _unmark(family: Family) -> list[Event]:
    """The workload is in an ordinary queue now: it stops first, and has no variants then (CA4)."""
    if family.running is None:
        events: list[Event] = [delete(family, variant, "") for variant in family.variants.values()]
        return [*events, variants.ParentUnmarked(cause=family.cause, workload=family.key)]
    events = _handshake(family)
    if events or family.leaving:
        return events
    why = "its queue has no concurrent admission any more"
    return [evict(family, family.running, CONCURRENT_ADMISSION, NO_VARIANT, cause_message=why)]


def _without_queue(state: State, family: Family) -> list[Event]:
    """A family whose queue is gone stays as it is, but what stops must stop, what is admitted must start."""
    events = _handshake(family)
    if events or family.leaving:
        return events
    over = _give_up(family)
    if over:
        return over
    events = _spread(state, family)
    if not family.active and not any(variant.is_settling for variant in family.variants.values()):
        why = parent_inactive(family)
        events += [
            _deactivate(family, variant, why) for variant in family.variants.values() if variant.active
        ]
    return events + _admit(family)


def _ended(family: Family) -> list[Event]:
    """Give up at once what a job holds that only has to stop: nothing is moved to any more."""
    return [
        delete(family, variant, "its job is about to end")
        for variant in family.variants.values()
        if variant.key != family.running
    ]


# The eviction handshake


def _handshake(family: Family) -> list[Event]:
    if family.running is not None:
        running = family.variants.get(family.running)
        if family.stopped:
            return _released(family, running)
        if family.leaving:
            return []
        if running is None or running.evicted or running.assignment is None:
            why = (running.evicted_reason, running.evicted_message) if running is not None else ("", "")
            return [evict(family, family.running, VARIANT_EVICTED, VARIANT_EVICTED_MESSAGE, *why)]
        return []
    return [
        # Evicted before the parent was admitted: nothing was started.
        variants.VariantStopped(cause=family.cause, workload=variant.key)
        for variant in family.variants.values()
        if variant.evicted and variant.admitted_at is not None and not variant.stopped
    ]


def _released(family: Family, running: Variant | None) -> list[Event]:
    """The job has stopped, as it was told to or by itself: give the variant's quota back."""
    assert family.running is not None
    events: list[Event] = []
    if not family.leaving:
        events.append(evict(family, family.running, family.stopped_reason, family.stopped_message))
    reset = running is not None and running.evicted and running.evicted_reason == PREEMPTED
    events.append(
        variants.ParentReleased(cause=family.cause, workload=family.key, variant=family.running, reset=reset)
    )
    if running is not None:
        events.append(
            variants.VariantStopped(
                cause=family.cause,
                workload=running.key,
                # Of a stop that the scheduler has not asked for, it has to be told why.
                reason=family.stopped_reason or family.leaving_reason,
                message=family.stopped_message or family.leaving_message,
            )
        )
    return events


# Activation


def _switch(family: Family, policy: VariantPolicy, at: Micros) -> list[Event]:
    """Activate and deactivate variants; deactivate the parent when none of them can ever run."""
    over = _give_up(family)
    if over:
        return over
    if any(variant.is_settling for variant in family.variants.values()):
        return []  # until the handshake is over, nobody is admitted, and nobody is not
    events: list[Event] = []
    for variant in family.variants.values():
        active, why = desired(family, policy, variant, at)
        if active == variant.active:
            continue
        if active:
            message = f"Variant Workload activated due to {why}"
            events.append(
                variants.VariantActivated(
                    cause=family.cause, workload=variant.key, parent=family.key, message=message
                )
            )
        else:
            events.append(_deactivate(family, variant, why))
    return events


def _deactivate(family: Family, variant: Variant, why: str) -> variants.VariantDeactivated:
    message = VARIANT_DEACTIVATED.format(why)
    return variants.VariantDeactivated(
        cause=family.cause, workload=variant.key, parent=family.key, message=message
    )


def _give_up(family: Family) -> list[Event]:
    failed = _failed_for_good(family)
    if failed is None:
        return []
    return [
        variants.ParentDeactivated(
            cause=family.cause,
            workload=family.key,
            reason=failed.failed,
            message=failed.failed_message,
            observed_switch=family.switched_by,
        )
    ]


def _failed_for_good(family: Family) -> Variant | None:
    """Return the variant for whose failure the whole job is over: out of time, of attempts, of variants."""
    if not family.active:
        return None
    for variant in family.variants.values():
        if variant.failed and not variant.rejected:
            return variant
    rejected = [variant for variant in family.variants.values() if variant.rejected]
    return rejected[-1] if rejected and len(rejected) == len(family.variants) else None


# The parent


def _admit(family: Family) -> list[Event]:
    if family.running is not None or not family.active:
        return []
    admitted = family.admitted
    if admitted is None or admitted.assignment is None:
        return []
    return [
        variants.ParentAdmitted(
            cause=family.cause,
            workload=family.key,
            variant=admitted.key,
            cluster_queue=admitted.cluster_queue,
            pod_sets=admitted.assignment,
            updates=dict(by_check(admitted.updates)),
            message=f"The variant {admitted.record.name} is admitted",
            observed_generation=_observed(family, admitted),
        )
    ]


def _observed(family: Family, admitted: Variant) -> int:
    """Return how many changes of the parent's pods the variant's quota takes into account, 0 if unknown."""
    if not family.changes or admitted.observed != admitted.changes:
        return 0
    return family.changes if _same(family.record.pod_sets, admitted.record.pod_sets) else 0


_SHARED = (
    "queue_name",
    "priority",
    "priority_class",
    "maximum_execution_time_s",
    "pod_sets",
    "misconfigured",
)


_RESERVED_FOR = ("queue_name", "pod_sets")
"""Of `_SHARED`: what quota is reserved for, and what checks look at."""


def _outdated(state: State, family: Family) -> list[Event]:
    """Give up what variants hold for a job that has been edited since; they are made anew.

    As of a job without variants: of what it asks for now, nobody has approved anything. What is admitted
    already, the slice-aggregator answers for.
    """
    parent = family.record
    if state.spread.get(family.key) is parent:
        return []
    why = "its job has changed since quota was reserved for it"
    return [
        delete(family, variant, why)
        for variant in family.variants.values()
        if variant.assignment is not None
        and variant.admitted_at is None
        and not all(_same(getattr(parent, name), getattr(variant.record, name)) for name in _RESERVED_FOR)
    ]


def _spread(state: State, family: Family) -> list[Event]:
    """Copy to variants what has changed in their parent."""
    events: list[Event] = []
    parent = family.record
    shared = state.spread.get(family.key) is parent
    for variant in family.variants.values() if not shared else ():
        changes = {
            name: getattr(parent, name)
            for name in _SHARED
            if not _same(getattr(parent, name), getattr(variant.record, name))
            and getattr(parent, name) is not None
        }
        own = tuple(variant.record.allowed_flavors)
        labels, annotations = shared_metadata(parent, own)
        if labels != variant.record.labels:
            changes["labels"] = labels
        if annotations != variant.record.annotations:
            changes["annotations"] = annotations
        if changes:
            events.append(variants.VariantUpdated(cause=family.cause, workload=variant.key, **changes))
    if not events:
        state.spread[family.key] = parent
    running = family.variants.get(family.running) if family.running is not None else None
    if running is not None and not running.evicted:
        if family.ready != running.ready:
            events.append(
                variants.VariantPodsReady(cause=family.cause, workload=running.key, ready=family.ready)
            )
        if family.reclaimed != running.reclaimed:
            events.append(
                variants.VariantPodsReclaimed(cause=family.cause, workload=running.key, pods=family.reclaimed)
            )
    return events


def _same(one: object, other: object) -> bool:
    if one is other:
        return True
    if isinstance(one, Sequence) and not isinstance(one, str):
        # What was read from the log has lists where what was made here has tuples.
        return msgspec.json.encode(one) == msgspec.json.encode(other)
    return one == other


__all__ = ["family_deadline"]
