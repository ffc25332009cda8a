"""Explanation of a job that races with variants (CA4-CA12): what the variant-controller says of each."""

from dataclasses import dataclass

from sluice.core.timing import MICROS_PER_S
from sluice.core.variants.activity import delete_due, why_inactive
from sluice.core.variants.gates import keeps_its_turn
from sluice.core.variants.state import Family, State, Variant
from sluice.core.world.variant_policy import VariantPolicy
from sluice.events.base import Micros
from sluice.events.codec import rfc3339


@dataclass
class VariantNote:
    """What is to be said of a variant beside what the scheduler says of it."""

    name: str
    flavors: list[str]
    active: bool = True
    inactive_because: str = ""
    gate: str = ""
    """Whether it may preempt, since when, or who may first."""
    next: str = ""
    """What happens by itself, and when."""


def notes(state: State, key: str, at: Micros) -> dict[str, VariantNote]:
    """Return variant's workload -> what is to be said of it, the most preferred first; {} for no family."""
    family = state.families.get(key)  # type: ignore[call-overload]
    if family is None:
        return {}
    policy = state.policy_of(family)
    timeout = state.config.preemption_gate_timeout_seconds * MICROS_PER_S
    return {variant.key: _note(family, policy, variant, at, timeout) for variant in family.ordered()}


def _note(
    family: Family, policy: VariantPolicy | None, variant: Variant, at: Micros, timeout: Micros
) -> VariantNote:
    found = VariantNote(variant.name, list(variant.record.allowed_flavors), variant.active)
    wanted = next((w for w in policy.wanted if w.name == variant.name), None) if policy is not None else None
    if not variant.active and policy is not None:
        found.inactive_because = why_inactive(family, policy, variant, at) or "it is about to be activated"
        if wanted is not None and wanted.create_delay_s and family.running is None:
            due = family.since + wanted.create_delay_s * MICROS_PER_S
            if due > at:
                found.next = f"It is let into the race at {rfc3339(due)} (createDelaySeconds)."
    elif family.running not in (None, variant.key) and (until := delete_due(family, wanted) or 0) > at:
        found.next = f"It gives up at {rfc3339(until)} (deleteDelaySeconds)."
    found.gate = _gate(family, variant, timeout)
    return found


def _gate(family: Family, variant: Variant, timeout: Micros) -> str:
    if variant.assignment is not None or not variant.active:
        return ""
    if variant.gate_at is not None:
        return f"It may preempt since {rfc3339(variant.gate_at)}."
    order = family.ordered()
    holder = next((other for other in order if other.gate_at is not None), None)
    if holder is not None and holder.gate_at is not None:
        # Those behind it leave it to try, whether or not they were blocked themselves (CA11).
        if not variant.blocked and order.index(variant) < order.index(holder):
            return ""
        if holder.promised and keeps_its_turn(family, holder):
            return f"It may not preempt now: it is {holder.name}'s turn until its checks have answered."
        turn = rfc3339(holder.gate_at + timeout)
        return f"It may not preempt now: {holder.name} may, and has until {turn} to get in by it."
    if not variant.blocked:
        return ""
    first = next((v for v in order if v.active and v.assignment is None and not v.evaluated), None)
    behind = f" {first.name} must be looked at first." if first is not None else ""
    return f"It may not preempt yet: its gate is closed.{behind}"
