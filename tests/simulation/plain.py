"""Which jobs must run in the end, whatever the scheduler thinks: told by the manifests alone.

Asked only of what is beyond doubt: one pod set that fits the queue's own quota of one flavor, on which
nothing bars it, in a queue that works and asks no checks. A decider that refuses what it should take, or
forgets it, does so in the comparison of `calm.Alone`, too; here it is seen.
"""

from typing import TYPE_CHECKING, Any

from sluice.api import kueue
from sluice.core.flavors.eligibility import FlavorRule
from sluice.events.base import JobKey

if TYPE_CHECKING:
    from .cell import Cell

GATED = "kueue.x-k8s.io/admission-gated-by"


def must_run(cell: "Cell", record: Any, job: JobKey) -> bool:
    """Must the job, with this record of its workload, have run by now, if it had its queue for itself?"""
    namespace = job.partition("/")[0]
    local = _get(cell, "LocalQueue", f"{namespace}/{record.queue_name}")
    queue = _get(cell, "ClusterQueue", local.spec.cluster_queue) if local is not None else None
    if queue is None or _stopped(local) or _stopped(queue) or len(record.pod_sets) != 1:
        return False
    spec: kueue.ClusterQueueSpec = queue.spec
    selector = spec.namespace_selector
    if selector is None or selector.match_labels or selector.match_expressions:
        return False
    if record.misconfigured or spec.admission_checks_strategy is not None or GATED in record.annotations:
        return False
    if spec.concurrent_admission_policy is not None or record.allowed_flavors or record.replaces is not None:
        return False
    names = [flavor.name for group in spec.resource_groups for flavor in group.flavors]
    if any(_get(cell, "ResourceFlavor", name) is None for name in names):
        return False
    (pods,) = record.pod_sets
    left = {resource: amount * pods.count for resource, amount in pods.requests.items()}
    for group in spec.resource_groups:
        part = {
            resource: left.pop(resource) for resource in list(left) if resource in group.covered_resources
        }
        if part and not any(_has(cell, flavor, pods, part) for flavor in group.flavors):
            return False
    return not left and pods.count > 0


def _has(cell: "Cell", flavor: Any, pods: Any, part: dict[str, int]) -> bool:
    found = _get(cell, "ResourceFlavor", flavor.name)
    if found is None or FlavorRule(found).obstacle(pods):
        return False
    quotas = {quota.name: quota.nominal_quota for quota in flavor.resources}
    return all(
        resource in quotas and amount <= _amount(quotas[resource], resource)
        for resource, amount in part.items()
    )


def _amount(quantity: Any, resource: str) -> int:
    whole = int(str(quantity))
    return whole * 1000 if resource == "cpu" else whole


def _stopped(found: Any) -> bool:
    return found.metadata.deletion_timestamp is not None or found.spec.stop_policy not in (None, "", "None")


def _get(cell: "Cell", kind: str, name: str) -> Any:
    found = cell.objects.by_kind.get(kind, {}).get(name)
    return None if found is None else found.object


__all__ = ["must_run"]
