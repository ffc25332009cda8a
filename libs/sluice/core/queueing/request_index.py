"""Parked classes by what they request at least, so that a wake looks only at those that could fit.

Most workloads come in few sizes. Classes of one size are kept in one ranked list, a *shape*; with the
amounts that are free at most, whole shapes are passed over, and the rest is merged by rank. What a class may
have of one flavor only, as a variant does, is judged by what is free of that flavor.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final

from sluice.core.quota.node import FlavorResource

from .sorted_map import Rank, SortedMap

ANY: Final = ""
"""Stands for the flavor where there is a choice."""

Least = tuple[tuple[FlavorResource, int], ...]
"""((flavor or ANY, resource), amount) pairs, sorted, without which nothing can be admitted. () means that any
could do."""

Bounds = Mapping[FlavorResource, int]
"""(flavor, resource) -> the most of it that anybody could get; with ANY, of the flavor with most."""


def with_any(most: Mapping[FlavorResource, int]) -> Bounds:
    """Return *most*, by flavor and resource, and for each resource that of the flavor with most."""
    bounds = dict(most)
    for (_, resource), amount in most.items():
        if amount > bounds.get((ANY, resource), 0):
            bounds[ANY, resource] = amount
    return bounds


_NOTHING: Final = ((ANY, ""), 0)
"""Stands in for the first pair of a shape that has none."""


class RequestIndex[T]:
    """Parked classes, by shape and rank."""

    __slots__ = ("_by_first", "_by_least")

    def __init__(self) -> None:
        self._by_least: dict[Least, SortedMap[T]] = {}
        self._by_first: dict[FlavorResource, list[tuple[int, Least]]] = {}
        """First flavor and resource of a shape -> (amount, shape), ascending."""

    def __bool__(self) -> bool:
        return bool(self._by_least)

    def add(self, least: Least, rank: Rank, item: T) -> None:
        ranked = self._by_least.get(least)
        if ranked is None:
            ranked = self._by_least[least] = SortedMap()
            first, amount = least[0] if least else _NOTHING
            insort(self._by_first.setdefault(first, []), (amount, least))
        ranked.add(rank, item)

    def discard(self, least: Least, rank: Rank, item: T) -> None:
        ranked = self._by_least.get(least)
        if ranked is None:
            return
        ranked.discard(rank, item)
        if not ranked:
            del self._by_least[least]
            first, amount = least[0] if least else _NOTHING
            shapes = self._by_first[first]
            del shapes[bisect_left(shapes, (amount, least))]
            if not shapes:
                del self._by_first[first]

    def move(self, least: Least, old: Rank, new: Rank, item: T) -> None:
        """Give *item*, which is there under *old*, the rank *new*."""
        self._by_least[least].move(old, new, item)

    def within(self, bounds: Bounds) -> list[tuple[Least, SortedMap[T]]]:
        """Return the shapes whose amounts are all within *bounds*; in no order that means anything."""
        found = []
        for first, shapes in self._by_first.items():
            most = bounds.get(first, 0)
            for amount, least in shapes:
                if amount > most:
                    break
                if len(least) < 2 or fits(least, bounds):
                    found.append((least, self._by_least[least]))
        return found

    def has_within(self, bounds: Bounds) -> bool:
        """Are there any shapes whose amounts are all within *bounds*?"""
        for first, shapes in self._by_first.items():
            most = bounds.get(first, 0)
            for amount, least in shapes:
                if amount > most:
                    break
                if len(least) < 2 or fits(least, bounds):
                    return True
        return False

    def merged(self, bounds: Bounds) -> Iterator[T]:
        """Yield the classes within *bounds*, the lowest rank first. Do not change the shapes meanwhile."""
        shapes = [ranked for _, ranked in self.within(bounds)]
        if len(shapes) == 1:
            yield from shapes[0]
            return
        heap = [
            (rank, index, rest)
            for index, rest in enumerate(map(SortedMap.ranks, shapes))
            for rank in (next(rest),)
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


def fits(least: Least, bounds: Bounds) -> bool:
    """Are all amounts within *bounds*?"""
    return all(amount <= bounds.get(fr, 0) for fr, amount in least)


__all__ = ["ANY", "Bounds", "Least", "fits", "with_any"]
