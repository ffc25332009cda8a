"""Parked classes by what they request at least, so that a wake looks only at those that could fit.

Most workloads come in few sizes. Classes of one size are kept in one ranked list, a *shape*; with the
amounts that are free at most, whole shapes are passed over, and the rest is merged by rank.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from .ranked import Rank, Ranked

if TYPE_CHECKING:
    from .pending import Peers

Least = tuple[tuple[str, int], ...]
"""(resource, amount) pairs, sorted, without which nothing can be admitted. () means that any could do."""

Bounds = Mapping[str, int]
"""Resource -> the most of it that anybody could get."""


class Shapes:
    """Parked classes, by shape and rank."""

    __slots__ = ("_by_least", "_by_resource")

    def __init__(self) -> None:
        self._by_least: dict[Least, Ranked[Peers]] = {}
        self._by_resource: dict[str, list[tuple[int, Least]]] = {}
        """First resource of a shape -> (amount, shape), ascending."""

    def __bool__(self) -> bool:
        return bool(self._by_least)

    def add(self, least: Least, rank: Rank, peers: "Peers") -> None:
        ranked = self._by_least.get(least)
        if ranked is None:
            ranked = self._by_least[least] = Ranked()
            resource, amount = least[0] if least else ("", 0)
            insort(self._by_resource.setdefault(resource, []), (amount, least))
        ranked.add(rank, peers)

    def discard(self, least: Least, rank: Rank, peers: "Peers") -> None:
        ranked = self._by_least.get(least)
        if ranked is None:
            return
        ranked.discard(rank, peers)
        if not ranked:
            del self._by_least[least]
            resource, amount = least[0] if least else ("", 0)
            shapes = self._by_resource[resource]
            del shapes[bisect_left(shapes, (amount, least))]
            if not shapes:
                del self._by_resource[resource]

    def move(self, least: Least, old: Rank, new: Rank, peers: "Peers") -> None:
        """Give *peers*, which are there under *old*, the rank *new*."""
        self._by_least[least].move(old, new, peers)

    def within(self, bounds: Bounds) -> "list[tuple[Least, Ranked[Peers]]]":
        """Return the shapes whose amounts are all within *bounds*; in no order that means anything."""
        found = []
        for resource, shapes in self._by_resource.items():
            most = bounds.get(resource, 0) if resource else 0
            for amount, least in shapes:
                if amount > most:
                    break
                if len(least) < 2 or fits(least, bounds):
                    found.append((least, self._by_least[least]))
        return found

    def merged(self, bounds: Bounds) -> "Iterator[Peers]":
        """Yield the classes within *bounds*, the lowest rank first. Do not change the shapes meanwhile."""
        shapes = [ranked for _, ranked in self.within(bounds)]
        if len(shapes) == 1:
            yield from shapes[0]
            return
        heap = [
            (rank, index, rest) for index, rest in enumerate(map(_ranks, shapes)) for rank in (next(rest),)
        ]
        heapify(heap)
        while heap:
            rank, index, rest = heap[0]
            yield shapes[index][rank]
            following = next(rest, None)
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (following, index, rest))


def _ranks(ranked: "Ranked[Peers]") -> Iterator[Rank]:
    return ranked.ranks()


def fits(least: Least, bounds: Bounds) -> bool:
    """Are all amounts within *bounds*?"""
    return all(amount <= bounds.get(resource, 0) for resource, amount in least)


__all__ = ["Bounds", "Least", "Shapes", "fits"]
