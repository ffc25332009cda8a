"""Cohort. That the tree has no cycles is checked where all cohorts are known (SC3)."""

from sluice.api.errors import FieldError, invalid
from sluice.api.kueue import Cohort

from . import names, quotas


def check_cohort(cohort: Cohort) -> list[FieldError]:
    """Check a new or changed cohort."""
    spec = cohort.spec
    found = quotas.check_resource_groups(
        "spec.resourceGroups",
        spec.resource_groups,
        has_parent=spec.parent_name != "",
        parent_word="parent",
        # A cohort may lend what its members have, which is more than its own quota.
        lending_at_most_nominal=False,
    )
    return found + quotas.check_fair_sharing("spec.fairSharing", spec.fair_sharing)


def schema_cohort(cohort: Cohort) -> list[FieldError]:
    """Check what the CRD's schema says."""
    found = quotas.schema_resource_groups("spec.resourceGroups", cohort.spec.resource_groups)
    parent = cohort.spec.parent_name
    if parent:
        found += names.check_name("spec.parentName", parent, names.dns_subdomain(parent))
        if parent == cohort.metadata.name:
            found.append(invalid("spec.parentName", parent, "a cohort cannot be its own parent"))
    return found
