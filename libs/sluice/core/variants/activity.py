"""Activity of the variants of a family: which may race at a moment, and why the others may not (CA9, CA12).

Readers ask this as the controller does; what is done about it says `decide`.
"""

from sluice.core.timing import MICROS_PER_S
from sluice.core.world.variant_policy import VariantPolicy, Wanted
from sluice.events.base import Micros

from .state import Family, Variant


def desired(family: Family, policy: VariantPolicy, variant: Variant, at: Micros) -> tuple[bool, str]:
    """Return whether the variant should be active at *at*, and why (CA9, CA12)."""
    if not family.active:
        return False, parent_inactive(family)
    if variant.rejected:
        return False, "its admission check having been rejected"
    wanted = policy.named(variant.name)
    delay_s = wanted.create_delay_s if wanted is not None else 0
    is_due = at >= family.since + delay_s * MICROS_PER_S
    admitted = family.admitted
    if admitted is None:
        if not is_due:
            return False, f"createDelaySeconds: {delay_s}"
        return True, "no other Variant being admitted"
    if admitted is variant:
        return True, "being admitted"
    preference = variant.record.preference
    if policy.retain_first:
        return False, f'RetainFirstAdmission: another Variant "{admitted.key}" is admitted'
    if policy.limit is not None and preference > policy.limit:
        return False, f'being below {policy.limit_text} and another Variant admitted "{admitted.key}"'
    if preference > admitted.record.preference:
        return False, f'being lower priority than admitted Variant "{admitted.key}"'
    delete_at = delete_due(family, wanted)
    if wanted is not None and delete_at is not None and at >= delete_at:
        delete_s = wanted.delete_delay_s
        return False, f'deleteDelaySeconds: {delete_s} after Variant "{admitted.key}" was admitted'
    if not is_due:
        return False, f"createDelaySeconds: {delay_s}"
    return True, f'being preferred to admitted Variant "{admitted.key}"'


def why_inactive(family: Family, policy: VariantPolicy, variant: Variant, at: Micros) -> str:
    """Return what keeps a variant that is switched off from racing at *at*, whatever it was switched off for;
    '' if nothing does, and the controller is about to say so.
    """
    if variant.failed:
        return f"{variant.failed}: {variant.failed_message}"
    active, why = desired(family, policy, variant, at)
    if not active:
        return why
    # A reason to switch it on, and none for being off: whether it races again is decided when that is over.
    settling = [other.name for other in family.ordered() if other.is_settling]
    return f"{' and '.join(settling)}, which ran, not having stopped yet" if settling else ""


def delete_due(family: Family, wanted: Wanted | None) -> Micros | None:
    """Return when this variant has to be given up if another one runs on, None without such a time (CA12).

    It counts from the admission of the variant that runs, so whatever has stopped the job, a move included,
    starts it anew with the next admission.
    """
    admitted = family.admitted
    if wanted is None or wanted.delete_delay_s is None or admitted is None or admitted.admitted_at is None:
        return None
    return admitted.admitted_at + wanted.delete_delay_s * MICROS_PER_S


def parent_inactive(family: Family) -> str:
    """Return why no variant of a job that is switched off may race, in Kueue's words."""
    return f'Parent Workload "{family.key}" not active'


__all__ = ["delete_due", "desired", "why_inactive"]
