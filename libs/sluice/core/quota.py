"""The cohort tree: nominal quota, borrowing, lending, usage and what is available (SC3).

Cluster queues are leaves, cohorts inner nodes. Quota below a node's lending limit is *local*: only the
node itself may use it, and the parent does not see it. Everything above is stored in the parent, so
usage travels up the tree only where it exceeds the local quota. All amounts are integers in base units.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FlavorResource = tuple[str, str]
"""(flavor, resource)."""

DEFAULT_WEIGHT_MILLI = 1000


class CohortCycleError(ValueError):
    """A cohort would be its own ancestor."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one flavor and resource at one node; None means no limit."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class Node:
    """One cluster queue or cohort. Usage changes only through `Tree`, so that trials can be rolled back."""

    __slots__ = (
        "children",
        "is_cluster_queue",
        "local",
        "name",
        "parent",
        "quotas",
        "subtree",
        "usage",
        "weight",
    )

    def __init__(self, name: str, *, is_cluster_queue: bool) -> None:
        self.name = name
        self.is_cluster_queue = is_cluster_queue
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.quotas: Mapping[FlavorResource, Quota] = {}
        self.subtree: dict[FlavorResource, int] = {}
        """Nominal quota of the node plus what its children store in it."""
        self.local: dict[FlavorResource, int] = {}
        """Part of `subtree` that is never lent, hence not visible to the parent."""
        self.usage: dict[FlavorResource, int] = {}
        self.weight = DEFAULT_WEIGHT_MILLI
        """Fair-sharing weight in thousandths."""

    def available(self, fr: FlavorResource) -> int:
        """Return what the node may still use, borrowing included; negative when over-used after a cut."""
        usage = self.usage.get(fr, 0)
        subtree = self.subtree.get(fr, 0)
        if self.parent is None:
            return subtree - usage
        local = self.local.get(fr, 0)
        from_parent = self.parent.available(fr)
        quota = self.quotas.get(fr)
        if quota is not None and quota.borrowing_limit is not None:
            stored = subtree - local
            used = max(0, usage - local)
            from_parent = min(from_parent, stored - used + quota.borrowing_limit)
        return max(0, local - usage) + from_parent

    def potential_available(self, fr: FlavorResource) -> int:
        """Return the most that the node could ever use, were nothing in use anywhere."""
        subtree = self.subtree.get(fr, 0)
        if self.parent is None:
            return subtree
        most = self.local.get(fr, 0) + self.parent.potential_available(fr)
        quota = self.quotas.get(fr)
        if quota is not None and quota.borrowing_limit is not None:
            most = min(most, subtree + quota.borrowing_limit)
        return most

    def borrowing(self, fr: FlavorResource) -> bool:
        """Is more in use than the subtree's own quota?"""
        return self.borrowing_with(fr, 0)

    def borrowing_with(self, fr: FlavorResource, amount: int) -> bool:
        """Would the node borrow if it used *amount* more?"""
        return self.usage.get(fr, 0) + amount > self.subtree.get(fr, 0)

    def path_to_root(self) -> Iterator["Node"]:
        """Yield the ancestors, parent first, without the node itself."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def root(self) -> "Node":
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def path(self) -> str:
        """Return the cohort path, `/root/left/queue`."""
        names = [self.name, *(node.name for node in self.path_to_root())]
        return "/" + "/".join(reversed(names))


class Tree:
    """All nodes of a cell. A cohort exists while somebody names it, with or without a manifest."""

    def __init__(self) -> None:
        self.cluster_queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        self._journal: list[tuple[dict[FlavorResource, int], FlavorResource, int]] | None = None

    # Usage

    def add(self, node: Node, usage: Mapping[FlavorResource, int]) -> None:
        """Charge *usage* to *node* and, above local quota, to its ancestors."""
        for fr, amount in usage.items():
            self._add(node, fr, amount)

    def remove(self, node: Node, usage: Mapping[FlavorResource, int]) -> None:
        """Give *usage* back: first what is stored in the ancestors, then local quota."""
        for fr, amount in usage.items():
            self._remove(node, fr, amount)

    def _add(self, node: Node, fr: FlavorResource, amount: int) -> None:
        current: Node | None = node
        while current is not None and amount:
            used = current.usage.get(fr, 0)
            excess = amount - max(0, current.local.get(fr, 0) - used)
            self._set(current.usage, fr, used + amount)
            amount = max(0, excess)
            current = current.parent

    def _remove(self, node: Node, fr: FlavorResource, amount: int) -> None:
        current: Node | None = node
        while current is not None and amount:
            used = current.usage.get(fr, 0)
            stored = used - current.local.get(fr, 0)
            self._set(current.usage, fr, used - amount)
            amount = min(amount, stored) if stored > 0 else 0
            current = current.parent

    def _set(self, usage: dict[FlavorResource, int], fr: FlavorResource, value: int) -> None:
        if self._journal is not None:
            self._journal.append((usage, fr, usage.get(fr, 0)))
        usage[fr] = value

    # Trials

    def mark(self) -> int:
        """Start (or nest) a trial; give the result to `rollback`."""
        if self._journal is None:
            self._journal = []
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo every usage change since *mark*. The outermost rollback (to 0) ends the trial."""
        journal = self._journal
        if journal is None:
            return
        while len(journal) > mark:
            usage, fr, value = journal.pop()
            usage[fr] = value
        if mark == 0:
            self._journal = None

    # Shape

    def set_cluster_queue(
        self,
        name: str,
        cohort: str,
        quotas: Mapping[FlavorResource, Quota],
        weight: int = DEFAULT_WEIGHT_MILLI,
    ) -> Node:
        """Create or change a cluster queue; usage is kept. `cohort` '' means none."""
        node = self.cluster_queues.get(name)
        if node is None:
            node = self.cluster_queues[name] = Node(name, is_cluster_queue=True)
        self._change(node, cohort, quotas, weight)
        return node

    def set_cohort(
        self,
        name: str,
        parent: str,
        quotas: Mapping[FlavorResource, Quota],
        weight: int = DEFAULT_WEIGHT_MILLI,
    ) -> Node:
        """Create or change a cohort.

        Raises:
            CohortCycleError: *parent* is the cohort itself or one of its descendants.
        """
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = Node(name, is_cluster_queue=False)
        ancestor = self.cohorts.get(parent)
        while ancestor is not None:
            if ancestor is node:
                raise CohortCycleError(f"cohort {name!r}: parent {parent!r} is one of its descendants")
            ancestor = ancestor.parent
        self._change(node, parent, quotas, weight)
        return node

    def remove_cluster_queue(self, name: str) -> None:
        node = self.cluster_queues.pop(name, None)
        if node is not None:
            self._change(node, "", {}, node.weight)

    def remove_cohort(self, name: str) -> None:
        """Forget the manifest's quota; the node stays while something names it as its parent."""
        node = self.cohorts.get(name)
        if node is None:
            return
        self._change(node, "", {}, DEFAULT_WEIGHT_MILLI)
        if not node.children:
            del self.cohorts[name]

    def _change(
        self, node: Node, parent_name: str, quotas: Mapping[FlavorResource, Quota], weight: int
    ) -> None:
        old_root = node.root()
        parent = None
        if parent_name:
            parent = self.cohorts.get(parent_name)
            if parent is None:
                parent = self.cohorts[parent_name] = Node(parent_name, is_cluster_queue=False)
        if node.parent is not parent:
            if node.parent is not None:
                node.parent.children.remove(node)
            node.parent = parent
            if parent is not None:
                parent.children.append(node)
                parent.children.sort(key=_child_order)
        node.quotas = dict(quotas)
        node.weight = weight
        _recompute(old_root)
        if node.root() is not old_root:
            _recompute(node.root())


def _child_order(node: Node) -> tuple[bool, str]:
    return (node.is_cluster_queue, node.name)


def _recompute(node: Node) -> None:
    """Recompute quota and inner usage of a whole tree, bottom up; only shape changes do this."""
    node.subtree = {fr: quota.nominal for fr, quota in node.quotas.items()}
    if not node.is_cluster_queue:
        node.usage = {}
    for child in node.children:
        _recompute(child)
        for fr, amount in child.subtree.items():
            node.subtree[fr] = node.subtree.get(fr, 0) + amount - child.local.get(fr, 0)
        for fr, used in child.usage.items():
            node.usage[fr] = node.usage.get(fr, 0) + max(0, used - child.local.get(fr, 0))
    node.local = {
        fr: max(0, node.subtree[fr] - quota.lending_limit)
        for fr, quota in node.quotas.items()
        if quota.lending_limit is not None
    }


__all__ = ["DEFAULT_WEIGHT_MILLI", "CohortCycleError", "FlavorResource", "Node", "Quota", "Tree"]
