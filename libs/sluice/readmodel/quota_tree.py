"""The scheduler's quota tree, made of what people see: borrowing and shares as it works them out."""

from sluice.core.quota.fair_share import weight
from sluice.core.quota.manifests import quotas_of
from sluice.core.quota.tree import Tree
from sluice.core.views import View


def tree_of(view: View) -> Tree:
    """Return the scheduler's quota tree, with what the view says is charged in it."""
    tree = Tree()
    for name, spec in sorted(view.cohorts.items()):
        quotas, share = quotas_of(spec.resource_groups), weight(spec.fair_sharing)
        tree.set_cohort(name, spec.parent_name, quotas, share)
    for name, queue in sorted(view.cluster_queues.items()):
        if queue.spec is not None:
            spec_ = queue.spec
            node = tree.set_cluster_queue(
                name, spec_.cohort_name, quotas_of(spec_.resource_groups), weight(spec_.fair_sharing)
            )
            tree.add(node, queue.reservation)
    return tree
