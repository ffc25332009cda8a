"""A list that stays sorted, for orders that change one entry at a time."""

from bisect import bisect_left, insort
from collections.abc import Iterator

Rank = tuple[int, int, str]


class Ranked[T]:
    """Items by rank. Ranks are unique within one list (they end in a uid)."""

    __slots__ = ("_items", "_ranks")

    def __init__(self) -> None:
        self._ranks: list[Rank] = []
        self._items: dict[Rank, T] = {}

    def add(self, rank: Rank, item: T) -> None:
        if rank not in self._items:
            if not self._ranks or rank > self._ranks[-1]:
                self._ranks.append(rank)
            else:
                insort(self._ranks, rank)
        self._items[rank] = item

    def discard(self, rank: Rank, item: T) -> None:
        """Take *item* out, if it is there under this rank."""
        if self._items.get(rank) is item:
            del self._items[rank]
            del self._ranks[bisect_left(self._ranks, rank)]

    def first(self) -> T | None:
        return self._items[self._ranks[0]] if self._ranks else None

    def __iter__(self) -> Iterator[T]:
        """Yield the items, the lowest rank first. Do not change the list meanwhile."""
        items = self._items
        for rank in self._ranks:
            yield items[rank]

    def __getitem__(self, rank: Rank) -> T:
        return self._items[rank]

    def ranks(self) -> Iterator[Rank]:
        """Yield the ranks, the lowest first. Do not change the list meanwhile."""
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)


__all__ = ["Rank", "Ranked"]
