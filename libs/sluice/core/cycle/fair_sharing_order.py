"""Order of the entries of a cohort tree under fair sharing: the next one (SC1, SC6).

Every node nominates one entry: the one after whose admission the child that it comes from has the lowest
dominant resource share. Subtrees that would not borrow what the entry requests go before those that would.
"""

from collections.abc import Mapping

from sluice.api.features import FAIR_SHARING_PRIORITIZE_NON_BORROWING, enabled
from sluice.api.kueue import ConfigurationSpec
from sluice.core.quota.fair_share import Share, dominant_resource_share
from sluice.core.quota.tree import Node, Tree

from .entry import Entry, Order, Ordering

_Shares = dict[tuple[Node, Entry], Share]
"""(cohort, entry) -> share of the cohort's child that the entry comes from, were it admitted."""


def winner(tree: Tree, root: Node, entries: Mapping[Node, Entry], config: ConfigurationSpec) -> Entry:
    """Return the entry to be processed next. `entries`: at least one, by the node of its queue."""
    ordering = Ordering(config)
    if root.is_cluster_queue:
        return entries[root]
    shares = _shares(tree, entries)
    nominal_first = enabled(config.feature_gates, FAIR_SHARING_PRIORITIZE_NON_BORROWING)
    found = _best(root, entries, shares, ordering, nominal_first=nominal_first)
    assert found is not None, f"no entry below {root!r}"
    return found


def _shares(tree: Tree, entries: Mapping[Node, Entry]) -> _Shares:
    shares: _Shares = {}
    for node, entry in entries.items():
        mark = tree.mark()
        tree.add(node, entry.proposal.usage)
        below = dominant_resource_share(tree, node)
        for ancestor in node.path_to_root():
            shares[ancestor, entry] = below
            below = dominant_resource_share(tree, ancestor)
        tree.rollback(mark)
    return shares


def _best(
    cohort: Node, entries: Mapping[Node, Entry], shares: _Shares, ordering: Ordering, *, nominal_first: bool
) -> Entry | None:
    candidates = [
        found
        for child in cohort.child_cohorts
        if (found := _best(child, entries, shares, ordering, nominal_first=nominal_first)) is not None
    ]
    candidates += [entries[child] for child in cohort.child_cluster_queues if child in entries]

    def key(entry: Entry) -> tuple[bool, tuple[int, int], Order]:
        share = shares[cohort, entry]
        borrows = nominal_first and share.is_borrowing_on(entry.proposal.usage)
        return (borrows, share.key, ordering.tie_break(entry.workload))

    return min(candidates, key=key, default=None)
