"""The cohort tree: nominal quota, borrowing, lending, usage and what is available (SC3).

Cluster queues are leaves, cohorts inner nodes. Quota that a node keeps back from lending is *local*: only
its own subtree may use it, and the parent does not see it. All other quota is stored in the parent, so
usage travels up the tree only where it exceeds local quota.

    subtree(n) = nominal(n) + sum over children of (subtree - local)
    usage(n)   = sum over children of max(0, usage - local)          (a cluster queue's is its own)
    local(n)   = max(0, subtree - lending limit), or 0 without one

Amounts are integers in base units. They are exact: quantities saturate where they are read (G3), sums do
not, so that taking usage back always restores the state before.

`available` is the hottest question of the whole system. Every (node, flavor, resource) therefore is a
`Cell` linked to its parent's, and a question is one look-up and a walk up the links. Changes of quota or
shape are propagated as differences; nothing ever recomputes a whole tree.

Trials: `mark` starts one, every change of usage is then journalled, `rollback` undoes it. They nest.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping

from .node import DEFAULT_WEIGHT, WEIGHT_SCALE, Cell, FlavorResource, Node, Quota, borrowed, cell_of


class CohortCycleError(ValueError):
    """A cohort would be its own ancestor."""


class TrialError(RuntimeError):
    """The tree's shape was changed during a trial, or a trial was ended twice."""


def closes_a_cycle(cohort: str, parent: str, parent_of: Callable[[str], str]) -> bool:
    """Would *cohort* be its own ancestor with this parent? *parent_of*: of the others; '': none."""
    while parent:
        if parent == cohort:
            return True
        parent = parent_of(parent)
    return False


class Tree:
    """All nodes of a cell. A cohort exists while somebody names it, with or without a manifest."""

    __slots__ = ("_journal", "_trials", "cluster_queues", "cohorts", "version")

    def __init__(self) -> None:
        self.cluster_queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        self.version = 0
        """Grows with every change of quota, weight or shape: what is derived from them holds for one."""
        self._journal: list[tuple[Cell, int]] = []
        self._trials = 0

    # Usage

    def fits(self, node: Node, usage: Mapping[FlavorResource, int]) -> bool:
        """Is all of *usage* available to *node*, borrowing included?"""
        cells = node.cells
        for fr, amount in usage.items():
            cell = cells.get(fr)
            if amount > (node.available(fr) if cell is None else cell.available()):
                return False
        return True

    def add(self, node: Node, usage: Mapping[FlavorResource, int]) -> None:
        """Charge *usage* to *node* and, above local quota, to its ancestors. It may exceed what is there."""
        for fr, amount in usage.items():
            if amount:
                self._charge(node.cells.get(fr) or cell_of(node, fr), amount)

    def remove(self, node: Node, usage: Mapping[FlavorResource, int]) -> None:
        """Give *usage* back: first what is stored in the ancestors, then local quota."""
        for fr, amount in usage.items():
            if amount:
                self._charge(node.cells.get(fr) or cell_of(node, fr), -amount)

    def _charge(self, cell: Cell, amount: int) -> None:
        """Add *amount*, which may be negative, here and the difference that it makes at each ancestor."""
        journal = self._journal if self._trials else None
        while True:
            usage = cell.usage
            if journal is not None:
                journal.append((cell, usage))
            # As `Cell.put`; there is no hotter place.
            cell.usage = now = usage + amount
            if (now > cell.subtree) != (usage > cell.subtree):
                cell.note_borrowing()
            parent = cell.parent
            if parent is None:
                return
            if local := cell.local:
                amount = max(0, now - local) - max(0, usage - local)
                if not amount:
                    return
            cell = parent

    # Trials

    def mark(self) -> int:
        """Start a trial, inside another one or not. End each with one `rollback`, the last one first."""
        self._trials += 1
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """End the trial that `mark` started: undo every change of usage since.

        Raises:
            TrialError: no trial is open.
        """
        if not self._trials:
            raise TrialError("rollback without a mark")
        self.rewind(mark)
        self._trials -= 1

    def rewind(self, mark: int) -> None:
        """Undo every change of usage since *mark*, and leave the trial open."""
        journal = self._journal
        # A cell that changed often, as a root does, is put back once: to what it had first.
        for cell, usage in dict(reversed(journal[mark:])).items():
            cell.put(usage)
        del journal[mark:]

    # Shape

    def set_cluster_queue(
        self,
        name: str,
        cohort: str,
        quotas: Mapping[FlavorResource, Quota],
        weight: int = DEFAULT_WEIGHT,
    ) -> Node:
        """Create or change a cluster queue; usage is kept. `cohort` '' means none.

        `weight` is in billionths, see `sluice.core.quota.fair_share.weight`.
        """
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
        weight: int = DEFAULT_WEIGHT,
    ) -> Node:
        """Create or change a cohort. `parent` '' means none.

        Raises:
            CohortCycleError: *parent* is the cohort itself or one of its descendants; nothing is changed.
        """
        if self.would_cycle(name, parent):
            raise CohortCycleError(f"cohort {name!r}: parent {parent!r} is itself or one of its descendants")
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = Node(name, is_cluster_queue=False)
        self._change(node, parent, quotas, weight)
        return node

    def would_cycle(self, cohort: str, parent: str) -> bool:
        """Would *cohort* be its own ancestor with this parent?"""
        return closes_a_cycle(cohort, parent, self._parent_of)

    def _parent_of(self, cohort: str) -> str:
        node = self.cohorts.get(cohort)
        return node.parent.name if node is not None and node.parent is not None else ""

    def remove_cluster_queue(self, name: str) -> None:
        """Forget a cluster queue, its usage included."""
        node = self.cluster_queues.pop(name, None)
        if node is not None:
            self._change(node, "", {}, DEFAULT_WEIGHT)

    def remove_cohort(self, name: str) -> None:
        """Forget the manifest's quota and parent; the node stays while something names it as its parent."""
        node = self.cohorts.get(name)
        if node is None:
            return
        self._change(node, "", {}, DEFAULT_WEIGHT)
        node.explicit = False
        self._forget_if_unnamed(node)

    def _change(
        self, node: Node, parent_name: str, quotas: Mapping[FlavorResource, Quota], weight: int
    ) -> None:
        if self._trials:
            raise TrialError(f"{node!r} changed during a trial")
        self.version += 1
        node.explicit = True
        node.weight = weight
        old_parent = node.parent
        if (old_parent.name if old_parent is not None else "") != parent_name:
            if old_parent is not None:
                _detach(node, old_parent)
                self._forget_if_unnamed(old_parent)
            if parent_name:
                parent = self.cohorts.get(parent_name)
                if parent is None:
                    parent = self.cohorts[parent_name] = Node(parent_name, is_cluster_queue=False)
                _attach(node, parent)
        before = node.quotas
        node.quotas = dict(quotas)
        for fr in [*before, *(fr for fr in node.quotas if fr not in before)]:
            _set_quota(node, fr, before.get(fr), node.quotas.get(fr))

    def _forget_if_unnamed(self, cohort: Node) -> None:
        if not cohort.explicit and not cohort.child_cohorts and not cohort.child_cluster_queues:
            self.cohorts.pop(cohort.name, None)


def find_height_of_lowest_subtree_that_fits(node: Node, fr: FlavorResource, amount: int) -> tuple[int, bool]:
    """Return how far up the tree *node* must borrow to use *amount* more, and if that is below the root.

    0 means within its own quota (or without a cohort). Where no subtree has enough unused quota, the height
    of the whole tree.
    """
    parent = node.parent
    if parent is None or not node.borrowing_with(fr, amount):
        return 0, parent is not None
    remaining = amount - node.local_available(fr)
    while not (fits := not parent.borrowing_with(fr, remaining)) and parent.parent is not None:
        remaining -= parent.local_available(fr)
        parent = parent.parent
    return parent.height, fits and parent.parent is not None


def _set_quota(node: Node, fr: FlavorResource, before: Quota | None, after: Quota | None) -> None:
    if before == after:
        return
    cell = cell_of(node, fr)
    old = (cell.subtree - cell.local, max(0, cell.usage - cell.local))
    cell.quota = after
    cell.subtree += (after.nominal if after else 0) - (before.nominal if before else 0)
    _settle(cell)
    _propagate(cell, old)


def _settle(cell: Cell) -> None:
    """Derive what follows from the cell's quota and subtree quota."""
    quota = cell.quota
    lending_limit = quota.lending_limit if quota is not None else None
    borrowing_limit = quota.borrowing_limit if quota is not None else None
    cell.local = max(0, cell.subtree - lending_limit) if lending_limit is not None else 0
    cell.cap = cell.subtree - cell.local + borrowing_limit if borrowing_limit is not None else None
    cell.note_borrowing()


def _propagate(cell: Cell, before: tuple[int, int]) -> None:
    """Hand the difference in what the cell stores and uses in its parent up the tree."""
    stored, used = before
    while (parent := cell.parent) is not None:
        more_stored = cell.subtree - cell.local - stored
        more_used = max(0, cell.usage - cell.local) - used
        if not more_stored and not more_used:
            return
        stored, used = parent.subtree - parent.local, max(0, parent.usage - parent.local)
        parent.subtree += more_stored
        parent.usage += more_used
        _settle(parent)
        cell = parent


def _attach(node: Node, parent: Node) -> None:
    node.parent = parent
    insort(_siblings(node, parent), node, key=_name)
    _update_height(parent)
    for fr, cell in node.cells.items():
        cell.parent = cell_of(parent, fr)
        cell.note_borrowing()
        _propagate(cell, (0, 0))


def _detach(node: Node, parent: Node) -> None:
    for cell in node.cells.values():
        above = cell.parent
        if above is not None:
            above.borrowers.pop(node, None)
            # What the cell stored and used above goes, as if it had become empty.
            stored, used = above.subtree - above.local, max(0, above.usage - above.local)
            above.subtree -= cell.subtree - cell.local
            above.usage -= max(0, cell.usage - cell.local)
            _settle(above)
            _propagate(above, (stored, used))
        cell.parent = None
    siblings = _siblings(node, parent)
    del siblings[bisect_left(siblings, node.name, key=_name)]
    node.parent = None
    _update_height(parent)


def _siblings(node: Node, parent: Node) -> list[Node]:
    return parent.child_cluster_queues if node.is_cluster_queue else parent.child_cohorts


def _name(node: Node) -> str:
    return node.name


def _update_height(node: Node | None) -> None:
    while node is not None:
        height = 1 if node.child_cluster_queues or node.child_cohorts else 0
        for cohort in node.child_cohorts:
            height = max(height, cohort.height + 1)
        if height == node.height:
            return
        node.height = height
        node = node.parent


__all__ = [
    "WEIGHT_SCALE",
    "Cell",
    "CohortCycleError",
    "FlavorResource",
    "Node",
    "Quota",
    "Tree",
    "borrowed",
    "cell_of",
    "closes_a_cycle",
    "find_height_of_lowest_subtree_that_fits",
]
