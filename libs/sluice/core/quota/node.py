"""The nodes of the quota tree: what each has, uses, and may still use (SC3). See `sluice.core.quota.tree`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FlavorResource = tuple[str, str]
"""(flavor, resource)."""

WEIGHT_SCALE = 10**9
"""Fair-sharing weights are integers in billionths: the API's smallest weight is 10^-9."""

DEFAULT_WEIGHT = WEIGHT_SCALE


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one flavor and resource at one node; None means no limit."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


def borrowed(used: int, nominal: int) -> int:
    """Return what of *used* is above nominal quota: others of the cohort lend it, or quota was cut (SC3)."""
    return max(0, used - nominal)


class Cell:
    """One flavor and resource at one node. Only `Tree` writes to it."""

    __slots__ = ("borrowers", "cap", "fr", "local", "node", "parent", "quota", "subtree", "usage")

    def __init__(self, node: "Node", fr: FlavorResource) -> None:
        self.node = node
        self.fr = fr
        self.parent: Cell | None = None
        self.quota: Quota | None = None
        self.subtree = 0
        """Nominal quota of the node plus what its children store in it."""
        self.local = 0
        """Part of `subtree` that is never lent, hence not visible to the parent."""
        self.usage = 0
        self.cap: int | None = None
        """With a borrowing limit: the most that the node may use of what its parent holds."""
        self.borrowers: dict[Node, None] = {}
        """Children that borrow here. In no meaningful order: sort where order matters."""

    def available(self) -> int:
        """See `Node.available`."""
        # available(n) = unused local quota + min(cap - use of the parent, available(parent)), unrolled to
        # the least over all limits on the way up. With u = local - usage: max(0, u) - max(0, -u) = u.
        parent = self.parent
        if parent is None:
            return self.subtree - self.usage
        if parent.parent is None and not self.local:
            # As most are: a cluster queue that lends all it has, right below the root.
            free = parent.subtree - parent.usage
            if self.cap is None or free < self.cap - self.usage:
                return free
            return self.cap - self.usage
        spare = 0
        least: int | None = None
        cell = self
        while (parent := cell.parent) is not None:
            unused = cell.local - cell.usage
            if cell.cap is not None:
                limit = spare + cell.cap + unused
                if least is None or limit < least:
                    least = limit
            if unused > 0:
                spare += unused
            cell = parent
        total = spare + cell.subtree - cell.usage
        return total if least is None or total < least else least

    def potential_available(self) -> int:
        """See `Node.potential_available`."""
        stored_below = 0
        least: int | None = None
        cell = self
        while (parent := cell.parent) is not None:
            if cell.cap is not None:
                limit = stored_below + cell.cap + cell.local
                if least is None or limit < least:
                    least = limit
            stored_below += cell.local
            cell = parent
        total = stored_below + cell.subtree
        return total if least is None or total < least else least

    def put(self, usage: int) -> None:
        """Set the usage, and keep track of who borrows."""
        before = self.usage > self.subtree
        self.usage = usage
        if (usage > self.subtree) != before:
            self.note_borrowing()

    def note_borrowing(self) -> None:
        node = self.node
        if self.usage > self.subtree:
            node.borrowed[self.fr] = self
            if self.parent is not None:
                self.parent.borrowers[node] = None
        else:
            node.borrowed.pop(self.fr, None)
            if self.parent is not None:
                self.parent.borrowers.pop(node, None)


class Node:
    """One cluster queue or cohort. Changed through `Tree` only, so that trials can be rolled back."""

    __slots__ = (
        "borrowed",
        "cells",
        "child_cluster_queues",
        "child_cohorts",
        "explicit",
        "height",
        "is_cluster_queue",
        "lendable",
        "name",
        "parent",
        "quotas",
        "weight",
    )

    def __init__(self, name: str, *, is_cluster_queue: bool) -> None:
        self.name = name
        self.is_cluster_queue = is_cluster_queue
        self.explicit = False
        """Has a manifest; a cohort that is only named as a parent has none."""
        self.parent: Node | None = None
        self.child_cohorts: list[Node] = []
        """By name; so are the cluster queues."""
        self.child_cluster_queues: list[Node] = []
        self.height = 0
        """Edges to the furthest leaf: 0 for a cluster queue and for a cohort without children."""
        self.quotas: Mapping[FlavorResource, Quota] = {}
        self.cells: dict[FlavorResource, Cell] = {}
        self.borrowed: dict[FlavorResource, Cell] = {}
        """Where usage exceeds the subtree's quota. In no meaningful order."""
        self.weight = DEFAULT_WEIGHT
        """Fair-sharing weight in billionths; 0 is allowed."""
        self.lendable: tuple[int, dict[str, int]] | None = None
        """`sluice.core.quota.fair_share` keeps what can be lent here, with the tree's version it holds
        for."""

    # Amounts

    def used(self, fr: FlavorResource) -> int:
        """Return what is charged here; for a cohort only what exceeds its children's local quota."""
        cell = self.cells.get(fr)
        return 0 if cell is None else cell.usage

    def subtree_quota(self, fr: FlavorResource) -> int:
        """Return the nominal quota of the node and what its children lend to it."""
        cell = self.cells.get(fr)
        return 0 if cell is None else cell.subtree

    def local_quota(self, fr: FlavorResource) -> int:
        """Return the quota that this subtree never lends."""
        cell = self.cells.get(fr)
        return 0 if cell is None else cell.local

    def local_available(self, fr: FlavorResource) -> int:
        """Return the unused part of the local quota; never negative."""
        cell = self.cells.get(fr)
        return max(0, cell.local - cell.usage) if cell is not None else 0

    def nominal(self, fr: FlavorResource) -> int:
        """Return the node's own nominal quota; 0 where it has none."""
        quota = self.quotas.get(fr)
        return 0 if quota is None else quota.nominal

    def available(self, fr: FlavorResource) -> int:
        """Return what the node may still use, borrowing included; negative when over-used after a cut."""
        cell = self.cells.get(fr)
        if cell is not None:
            return cell.available()
        return 0 if self.parent is None else self.parent.available(fr)

    def potential_available(self, fr: FlavorResource) -> int:
        """Return the most that the node could ever use, were nothing in use anywhere."""
        cell = self.cells.get(fr)
        if cell is not None:
            return cell.potential_available()
        return 0 if self.parent is None else self.parent.potential_available(fr)

    def borrowing(self, fr: FlavorResource) -> bool:
        """Is more in use than the subtree's own quota?"""
        return fr in self.borrowed

    def borrowing_with(self, fr: FlavorResource, amount: int) -> bool:
        """Would the node borrow if it used *amount* more?"""
        cell = self.cells.get(fr)
        return amount > 0 if cell is None else cell.usage + amount > cell.subtree

    @property
    def usage(self) -> dict[FlavorResource, int]:
        """A fresh table of what is in use, without zeros, in the order of its keys. For reports and tests."""
        return {fr: self.cells[fr].usage for fr in sorted(self.cells) if self.cells[fr].usage}

    @property
    def subtree(self) -> dict[FlavorResource, int]:
        """A fresh table of the subtree's quota, without zeros, as `usage`."""
        return {fr: self.cells[fr].subtree for fr in sorted(self.cells) if self.cells[fr].subtree}

    # Shape

    @property
    def children(self) -> list["Node"]:
        """Cohorts first, then cluster queues, each by name."""
        return [*self.child_cohorts, *self.child_cluster_queues]

    def path_to_root(self) -> Iterator["Node"]:
        """Yield the ancestors, parent first, without the node itself."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def subtree_nodes(self) -> Iterator["Node"]:
        """Yield the node itself and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.subtree_nodes()

    def root(self) -> "Node":
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def path(self) -> str:
        """Return the cohort path, `/root/left/queue`."""
        path, node = self.name, self.parent
        while node is not None:
            path = f"{node.name}/{path}"
            node = node.parent
        return f"/{path}"

    def __repr__(self) -> str:
        return f"<{'queue' if self.is_cluster_queue else 'cohort'} {self.path()}>"


def cell_of(node: Node, fr: FlavorResource) -> Cell:
    """Return the cell of *fr* at *node*; make it, and those above it, where there is none yet.

    An empty cell is as good as none: nothing that is decided depends on it.
    """
    cell = node.cells.get(fr)
    if cell is None:
        cell = node.cells[fr] = Cell(node, fr)
        if node.parent is not None:
            cell.parent = cell_of(node.parent, fr)
    return cell


__all__ = ["FlavorResource"]
