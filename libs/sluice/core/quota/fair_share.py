"""Fair sharing: how much more than its own each node of the cohort tree uses, by its weight (SC6).

For each resource, what a node uses beyond its quota, over all flavors, is set in relation to all that its
parent could lend; the largest of these ratios, in thousandths and divided by the node's weight, is the
dominant resource share. A node with weight 0 that borrows has an infinite share.

Shares are fixed-point integers with 64 binary places, so that they compare the same on every machine.
"""

from collections.abc import Collection
from fractions import Fraction
from typing import Final, NamedTuple

from sluice.api import kueue
from sluice.api.quantity import MAX, parse

from .node import DEFAULT_WEIGHT
from .tree import WEIGHT_SCALE, FlavorResource, Node, Tree

_PLACES: Final = 64


class Share(NamedTuple):
    """A dominant resource share. Ordered: a node with less is served first, one with more gives first.

    Compare `key`; the other fields explain it.
    """

    key: tuple[int, int]
    """(1, unweighted ratio) with weight 0 and borrowing, else (0, weighted share); in 2^-64 thousandths."""
    resource: str
    """The dominant resource; '' when nothing is borrowed."""
    borrowed: tuple[FlavorResource, ...]
    """Where the node borrows, sorted."""

    @property
    def is_infinite(self) -> bool:
        return self.key[0] == 1

    def is_borrowing_on(self, requested: Collection[FlavorResource]) -> bool:
        """Does the node borrow any flavor and resource out of *requested*?"""
        return any(fr in requested for fr in self.borrowed)

    @property
    def rounded(self) -> int:
        """The weighted share in thousandths, rounded up, for status and metrics; 2^63 - 1 if infinite."""
        if self.is_infinite:
            return MAX
        return min(MAX, -(-self.key[1] >> _PLACES))


ZERO: Final = Share((0, 0), "", ())


def weight(spec: kueue.FairSharing | None) -> int:
    """Return the fair-sharing weight of a queue or cohort in billionths, as the quota tree takes it.

    Raises:
        QuantityError: the weight is no quantity.
    """
    if spec is None or spec.weight is None:
        return DEFAULT_WEIGHT
    value = Fraction(parse(spec.weight))
    scaled = int(value * WEIGHT_SCALE)
    return scaled if scaled > 0 or value <= 0 else 1


def dominant_resource_share(tree: Tree, node: Node) -> Share:
    """Return the share of *node*. The root's is zero: nobody lends to it."""
    if node.parent is None or not node.borrowed:
        return ZERO
    borrowing, borrowed = _borrowing(node)
    if not borrowing:
        return ZERO
    lendable = lendable_of(tree, node.parent)
    ratio, dominant, amount, most = 0, "", 0, 1
    for resource, borrowed_amount in borrowing.items():
        lent = lendable.get(resource, 0)
        if lent <= 0:
            continue
        candidate = (borrowed_amount * 1000 << _PLACES) // lent
        if candidate > ratio or (candidate == ratio and resource < dominant):
            ratio, dominant, amount, most = candidate, resource, borrowed_amount, lent
    borrowed.sort()
    if not node.weight:
        return Share((1, ratio), dominant, tuple(borrowed))
    # From the amounts, not from the rounded ratio: equal shares stay equal under different weights.
    share = (amount * 1000 * WEIGHT_SCALE << _PLACES) // (most * node.weight)
    return Share((0, share), dominant, tuple(borrowed))


def share_key(tree: Tree, node: Node) -> tuple[int, int]:
    """Return the `key` of the node's share alone."""
    return dominant_resource_share(tree, node).key


def lendable_of(tree: Tree, node: Node) -> dict[str, int]:
    """Return what *node* could hold at most, by resource over all flavors. Do not change it: it is kept.

    It follows from quota alone, and holds until the tree's quota or shape changes.
    """
    kept = node.lendable
    if kept is not None and kept[0] == tree.version:
        return kept[1]
    lendable: dict[str, int] = {}
    for fr in node.root().cells:
        lendable[fr[1]] = lendable.get(fr[1], 0) + node.potential_available(fr)
    node.lendable = (tree.version, lendable)
    return lendable


def _borrowing(node: Node) -> tuple[dict[str, int], list[FlavorResource]]:
    """Return the amount beyond quota by resource, and the flavors and resources it is made of."""
    amounts: dict[str, int] = {}
    borrowed: list[FlavorResource] = []
    for fr, cell in node.borrowed.items():
        excess = cell.usage - cell.subtree
        if excess > 0:
            amounts[fr[1]] = amounts.get(fr[1], 0) + excess
            borrowed.append(fr)
    return amounts, borrowed


__all__ = ["Share", "dominant_resource_share", "share_key", "weight"]
