"""What the reservations of the view charge."""

from collections.abc import Mapping

from sluice.api.kueue import ConfigurationSpec
from sluice.core.workload.charges import counts, given_back, left, usage_of

from .records import FlavorResource, WorkloadView


def charge_of(config: ConfigurationSpec, workload: WorkloadView) -> dict[FlavorResource, int]:
    """Return what the reservation charges now, if nobody shares it: ended pods count no longer (SC7)."""
    ended = given_back(config, workload.reclaimable)
    return usage_of(workload.assignment or (), workload.record.pod_sets, ended)


def charged_pods(config: ConfigurationSpec, workload: WorkloadView) -> Mapping[str, int]:
    """Return for how many pods each pod set is charged where that is fewer than it was given."""
    ended = given_back(config, workload.reclaimable)
    if not ended or not workload.holds_quota:
        return {}
    specified = counts(workload.record.pod_sets)
    return {
        assigned.name: pods
        for assigned in workload.assignment or ()
        if ended.get(assigned.name) and (pods := left(assigned, specified, ended)) < assigned.count
    }


__all__ = ["charged_pods"]
