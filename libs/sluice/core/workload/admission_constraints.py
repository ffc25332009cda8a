"""Admission constraints that a job sets itself, if the gate WorkloadAdmissionConstraints is on (AX1, AX6)."""

from sluice.api.features import WORKLOAD_ADMISSION_CONSTRAINTS, enabled
from sluice.api.kueue import ConfigurationSpec
from sluice.events.slices import WorkloadRecord


def may_borrow(config: ConfigurationSpec, record: WorkloadRecord) -> bool:
    """May the workload have more than its queue's own quota?"""
    return not (record.cannot_borrow and _count(config))


def may_preempt(config: ConfigurationSpec, record: WorkloadRecord) -> bool:
    """May the workload preempt others?"""
    return not (record.cannot_preempt and _count(config))


def _count(config: ConfigurationSpec) -> bool:
    return enabled(config.feature_gates, WORKLOAD_ADMISSION_CONSTRAINTS)
