"""ClusterQueue."""

from collections.abc import Iterator, Mapping, Sequence

from sluice.api.errors import (
    IMMUTABLE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from sluice.api.features import NONE, REJECT_UPDATES_TO_CQ_WITH_INVALID_ON_FLAVORS, enabled
from sluice.api.kueue import (
    ClusterQueue,
    ClusterQueuePreemption,
    ClusterQueueSpec,
    ConcurrentAdmissionPolicy,
    ExplicitVariant,
    FlavorFungibility,
    ResourceGroup,
)

from . import names, quotas

MAX_CHECKS = 64
MAX_VARIANTS = 16
INT32 = 2**31 - 1
_POLICY = "spec.concurrentAdmissionPolicy"
_CONSTRAINTS = f"{_POLICY}.migration.constraints"
_MODES = ("TryPreferredFlavors", "RetainFirstAdmission")


def check_cluster_queue(queue: ClusterQueue) -> list[FieldError]:
    """Check a new queue."""
    return [*_check_spec(queue.spec), *_check_on_flavors(queue.spec, {})]


def check_cluster_queue_update(
    new: ClusterQueue, old: ClusterQueue, gates: Mapping[str, bool] = NONE
) -> list[FieldError]:
    """Check a changed queue: the rules for new ones, and what may not change."""
    tolerated: dict[str, frozenset[str]] = {}
    strategy = old.spec.admission_checks_strategy
    if (
        strategy is not None
        and not enabled(gates, REJECT_UPDATES_TO_CQ_WITH_INVALID_ON_FLAVORS)
        and frozenset(_flavors(old.spec.resource_groups)) == frozenset(_flavors(new.spec.resource_groups))
    ):
        # A reference that was wrong before stays allowed, or nothing else could be edited.
        tolerated = {check.name: frozenset(check.on_flavors) for check in strategy.admission_checks}
    found = [*_check_spec(new.spec), *_check_on_flavors(new.spec, tolerated)]
    # CA3: only the migration is immutable; ours, explicit variants may be edited.
    before, after = old.spec.concurrent_admission_policy, new.spec.concurrent_admission_policy
    if (before is None) != (after is None) or (
        # One without a mode is refused for that.
        before is not None
        and after is not None
        and after.migration.mode
        and before.migration != after.migration
    ):
        found.append(invalid(_POLICY, after, IMMUTABLE))
    return found


def _check_spec(spec: ClusterQueueSpec) -> Iterator[FieldError]:
    groups = "spec.resourceGroups"
    yield from quotas.check_resource_groups(
        groups,
        spec.resource_groups,
        has_parent=spec.cohort_name != "",
        parent_word="cohort",
        lending_at_most_nominal=True,
    )
    yield from names.check_selector("spec.namespaceSelector", spec.namespace_selector)
    if spec.preemption is not None:
        yield from _check_preemption(spec.preemption)
    if spec.flavor_fungibility is not None:
        yield from _check_fungibility(spec.flavor_fungibility)
    yield from quotas.check_fair_sharing("spec.fairSharing", spec.fair_sharing)
    yield from quotas.check_totals(groups, spec.resource_groups)
    if spec.concurrent_admission_policy is not None:
        # Whatever the gate says: with a queue that could not have it, it could not be switched on.
        yield from _check_policy(spec, spec.concurrent_admission_policy)


def _check_preemption(preemption: ClusterQueuePreemption) -> list[FieldError]:
    borrow = preemption.borrow_within_cohort
    if preemption.reclaim_within_cohort == "Never" and borrow is not None and borrow.policy != "Never":
        text = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        return [invalid("spec.preemption", preemption, text)]
    return []


def _check_fungibility(fungibility: FlavorFungibility) -> list[FieldError]:
    preference = fungibility.preference
    if preference is None or (
        fungibility.when_can_borrow == "TryNextFlavor" and fungibility.when_can_preempt == "TryNextFlavor"
    ):
        return []
    text = f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
    return [invalid("spec.flavorFungibility.preference", preference, text)]


def _flavors(groups: Sequence[ResourceGroup]) -> list[str]:
    return list(dict.fromkeys(flavor.name for group in groups for flavor in group.flavors))


def _check_on_flavors(
    spec: ClusterQueueSpec, tolerated: Mapping[str, frozenset[str]]
) -> Iterator[FieldError]:
    if spec.admission_checks_strategy is None:
        return
    known = _flavors(spec.resource_groups)
    for i, check in enumerate(spec.admission_checks_strategy.admission_checks):
        if tolerated.get(check.name) == frozenset(check.on_flavors):
            continue
        place = f"spec.admissionChecksStrategy.admissionChecks[{i}].onFlavors"
        yield from (
            not_supported(f"{place}[{j}]", flavor, known)
            for j, flavor in enumerate(check.on_flavors)
            if flavor not in known
        )


def _check_policy(spec: ClusterQueueSpec, policy: ConcurrentAdmissionPolicy) -> Iterator[FieldError]:
    """Check CA2."""
    groups = spec.resource_groups
    if not policy.explicit_variants:
        if len(groups) != 1:
            text = "must have exactly one ResourceGroup when ConcurrentAdmissionPolicy is defined"
            yield invalid("spec.resourceGroups", len(groups), text)
        elif len(groups[0].flavors) > MAX_VARIANTS:
            text = (
                f"cannot have more than {MAX_VARIANTS} resource flavors in the ResourceGroup when "
                "ConcurrentAdmissionPolicy is defined"
            )
            yield invalid("spec.resourceGroups[0].flavors", len(groups[0].flavors), text)
    if spec.queueing_strategy == "StrictFIFO":
        text = "StrictFIFO queueing strategy cannot be used when ConcurrentAdmissionPolicy is defined"
        yield invalid("spec.queueingStrategy", spec.queueing_strategy, text)
    yield from _check_constraints(spec, policy)
    yield from _check_variants(groups, policy)


def _check_constraints(spec: ClusterQueueSpec, policy: ConcurrentAdmissionPolicy) -> Iterator[FieldError]:
    constraints, mode = policy.migration.constraints, policy.migration.mode
    if constraints is None:
        return
    if mode not in ("", "TryPreferredFlavors"):
        text = f'may only be set when migration.mode is "TryPreferredFlavors" (got "{mode}")'
        yield forbidden(_CONSTRAINTS, text)
    flavor = constraints.last_acceptable_flavor_name
    if flavor is not None:
        place, known = f"{_CONSTRAINTS}.lastAcceptableFlavorName", _flavors(spec.resource_groups)
        if policy.explicit_variants:
            yield forbidden(place, "may not be set with explicitVariants")
        elif flavor not in known:
            text = f"must be one of the flavors defined in the ClusterQueue: [{' '.join(known)}]"
            yield invalid(place, flavor, text)
    variant = constraints.last_acceptable_variant_name
    if variant is not None:
        place = f"{_CONSTRAINTS}.lastAcceptableVariantName"
        variants = [explicit.name for explicit in policy.explicit_variants]
        if not variants:
            yield forbidden(place, "may only be set with explicitVariants")
        elif variant not in variants:
            text = f"must be one of the explicitVariants: [{' '.join(variants)}]"
            yield invalid(place, variant, text)


def _check_variants(
    groups: Sequence[ResourceGroup], policy: ConcurrentAdmissionPolicy
) -> Iterator[FieldError]:
    place = f"{_POLICY}.explicitVariants"
    if len(policy.explicit_variants) > MAX_VARIANTS:
        yield too_many(place, len(policy.explicit_variants), MAX_VARIANTS)
    known = _flavors(groups)
    seen: dict[str, None] = {}
    for i, variant in enumerate(policy.explicit_variants):
        here = f"{place}[{i}]"
        yield from names.check_name(f"{here}.name", variant.name, names.dns_label(variant.name))
        if variant.name in seen:
            yield duplicate(f"{here}.name", variant.name)
        seen[variant.name] = None
        allowed = variant.allowed_resource_flavors
        if not allowed:
            yield required(f"{here}.allowedResourceFlavors", "must name at least one flavor")
            continue
        yield from (
            not_supported(f"{here}.allowedResourceFlavors[{j}]", flavor, known)
            for j, flavor in enumerate(allowed)
            if flavor not in known
        )
        for j, group in enumerate(groups):
            if not any(flavor.name in allowed for flavor in group.flavors):
                text = f"must allow a flavor of every resource group; none of spec.resourceGroups[{j}]"
                yield invalid(f"{here}.allowedResourceFlavors", allowed, text)
        for word, delay in _delays(variant):
            if delay is not None and delay < 0:
                yield invalid(f"{here}.{word}", delay, quotas.NOT_NEGATIVE)


def schema_cluster_queue(queue: ClusterQueue) -> list[FieldError]:
    """Check what the CRD's schema says; enumerations are checked when decoding."""
    spec = queue.spec
    found = quotas.schema_resource_groups("spec.resourceGroups", spec.resource_groups)
    if spec.cohort_name:
        found += names.check_name("spec.cohortName", spec.cohort_name, names.dns_subdomain(spec.cohort_name))
    if spec.admission_checks_strategy is not None:
        found += _schema_checks(spec)
    borrow = spec.preemption.borrow_within_cohort if spec.preemption is not None else None
    if borrow is not None and borrow.max_priority_threshold is not None and borrow.policy in ("", "Never"):
        place = "spec.preemption.borrowWithinCohort.maxPriorityThreshold"
        found.append(forbidden(place, "may only be set when policy is LowerPriority"))
    if spec.concurrent_admission_policy is not None:
        found += _schema_policy(spec.concurrent_admission_policy)
    scope = spec.admission_scope
    if scope is not None and scope.admission_mode not in _SCOPES:
        found.append(not_supported("spec.admissionScope.admissionMode", scope.admission_mode, _SCOPES))
    return found


def _schema_policy(policy: ConcurrentAdmissionPolicy) -> list[FieldError]:
    mode, found = policy.migration.mode, list[FieldError]()
    if not mode:
        supported = ", ".join(f'"{word}"' for word in _MODES)
        found.append(required(f"{_POLICY}.migration.mode", f"supported values: {supported}"))
    elif mode not in _MODES:
        found.append(not_supported(f"{_POLICY}.migration.mode", mode, _MODES))
    for i, variant in enumerate(policy.explicit_variants):
        for word, delay in _delays(variant):
            if delay is not None and delay > INT32:
                place = f"{_POLICY}.explicitVariants[{i}].{word}"
                found.append(invalid(place, delay, f"must be less than or equal to {INT32}"))
    return found


def _delays(variant: ExplicitVariant) -> tuple[tuple[str, int | None], ...]:
    return (
        ("createDelaySeconds", variant.create_delay_seconds),
        ("deleteDelaySeconds", variant.delete_delay_seconds),
    )


_SCOPES = ("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")


def _schema_checks(spec: ClusterQueueSpec) -> Iterator[FieldError]:
    place = "spec.admissionChecksStrategy.admissionChecks"
    strategy = spec.admission_checks_strategy
    checks = strategy.admission_checks if strategy is not None else []
    if len(checks) > MAX_CHECKS:
        yield too_many(place, len(checks), MAX_CHECKS)
    seen: dict[str, None] = {}
    for i, check in enumerate(checks):
        yield from names.check_name(f"{place}[{i}].name", check.name, names.dns_subdomain(check.name))
        if check.name in seen:
            yield duplicate(f"{place}[{i}].name", check.name)
        seen[check.name] = None
