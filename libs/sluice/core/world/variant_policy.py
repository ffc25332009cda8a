"""Policy of variants, worked out of concurrentAdmissionPolicy: the variants of a queue's jobs, best first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sluice.api import kueue


@dataclass(frozen=True, slots=True)
class Wanted:
    """A variant that every parent of a queue should have."""

    name: str
    flavors: tuple[str, ...]
    create_delay_s: int = 0
    delete_delay_s: int | None = None


@dataclass(frozen=True, slots=True)
class VariantPolicy:
    """A queue's concurrentAdmissionPolicy, worked out: what its parents' variants are, best first."""

    wanted: tuple[Wanted, ...]
    retain_first: bool = False
    limit: int | None = None
    """Preference of the last variant that may be migrated to."""
    limit_text: str = ""

    def named(self, name: str) -> Wanted | None:
        """Return what is asked of the variant of this name, None if there should be none."""
        return next((wanted for wanted in self.wanted if wanted.name == name), None)


def policy_of(spec: kueue.ClusterQueueSpec) -> VariantPolicy | None:
    """Return what the queue's policy asks for, None without one (CA1, CA4)."""
    policy = spec.concurrent_admission_policy
    if policy is None:
        return None
    constraints = policy.migration.constraints
    if policy.explicit_variants:
        wanted = tuple(
            Wanted(
                explicit.name,
                tuple(explicit.allowed_resource_flavors),
                explicit.create_delay_seconds or 0,
                explicit.delete_delay_seconds,
            )
            for explicit in policy.explicit_variants
        )
        limit = constraints.last_acceptable_variant_name if constraints is not None else None
        what = "lastAcceptableVariant"
    else:
        names = dict.fromkeys(f.name for group in spec.resource_groups for f in group.flavors)
        wanted = tuple(Wanted(name, (name,)) for name in names)
        limit = constraints.last_acceptable_flavor_name if constraints is not None else None
        what = "lastAcceptableFlavor"
    order = [one.name for one in wanted]
    return VariantPolicy(
        wanted,
        retain_first=policy.migration.mode == "RetainFirstAdmission",
        limit=order.index(limit) if limit in order else None,
        limit_text=f'{what}: "{limit}"',
    )


def restricted(policy: VariantPolicy, allowed: Sequence[str]) -> dict[int, Wanted]:
    """Return the variants of a job by preference: those of the policy, with the flavors that the job allows.

    *allowed* () means any; a variant that is left with none is not made (CA4).
    """
    if not allowed:
        return dict(enumerate(policy.wanted))
    found: dict[int, Wanted] = {}
    for preference, wanted in enumerate(policy.wanted):
        flavors = tuple(name for name in wanted.flavors if name in allowed)
        if flavors:
            found[preference] = replace(wanted, flavors=flavors)
    return found
