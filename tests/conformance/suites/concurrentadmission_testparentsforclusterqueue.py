"""Which parents a change of a cluster queue concerns."""

from sluice.core.variants.decider import VariantController
from sluice.core.variants.fold import HANDLERS
from sluice.events.slices import WorkloadCreated
from tests.conformance.build import record_of
from tests.conformance.build_variants import apply_object, plain_queue
from tests.conformance.framework import Json, compare

SUITE = "concurrentadmission.TestParentsForClusterQueue"
LEFT_OUT: dict[str, str] = {}

_PARENT = "kueue.x-k8s.io/concurrent-admission-parent"


def run(case: Json, header: Json) -> None:
    """Fold all, then a change of the queue's flavors; compare who is to be looked at."""
    del header
    given = case["input"]
    state = VariantController().initial()
    target = given["clusterQueue"]
    names = {queue["spec"]["clusterQueue"] for queue in given.get("LocalQueue") or ()} | {target}
    for name in sorted(names):
        apply_object(state, "ClusterQueue", plain_queue(name, ("a",)))
    for queue in given.get("LocalQueue") or ():
        apply_object(state, "LocalQueue", queue)
    for manifest in given.get("Workload") or ():
        labels = manifest["metadata"].get("labels") or {}
        owners = manifest["metadata"].get("ownerReferences")
        if labels.get(_PARENT) == "true" or owners:
            # With us every workload of such a queue is a parent (CA4), so others are in another queue.
            event = WorkloadCreated(cause=0, workload=record_of(manifest))
            HANDLERS[WorkloadCreated](state, event, 1, 1)
    state.todo.clear()
    apply_object(state, "ClusterQueue", plain_queue(target, ("a", "b")))
    wanted = [_key(one) for one in case["expect"]["want"] or ()]
    compare(sorted(state.todo), sorted(wanted), "parents")


def _key(request: Json | str) -> str:
    if isinstance(request, str):
        return request
    found = request.get("namespacedName") or request
    return f"{found.get('namespace') or found.get('Namespace')}/{found.get('name') or found.get('Name')}"
