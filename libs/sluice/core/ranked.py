"""A list that stays sorted, for orders that change one entry at a time."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter

Rank = tuple[int, int, str]

_LAST = itemgetter(-1)

CHUNK = 512
"""Ranks are kept in chunks of up to twice this many: a change moves no more than one of them."""


class Ranked[T]:
    """Items by rank. Ranks are unique within one list (they end in a uid)."""

    __slots__ = ("_chunks", "_items")

    def __init__(self) -> None:
        self._chunks: list[list[Rank]] = []
        """Sorted, none of them empty."""
        self._items: dict[Rank, T] = {}

    def add(self, rank: Rank, item: T) -> None:
        if rank not in self._items:
            self._insert(rank)
        self._items[rank] = item

    def _insert(self, rank: Rank) -> None:
        chunks = self._chunks
        if not chunks:
            chunks.append([rank])
            return
        index = len(chunks) - 1
        if rank > chunks[index][-1]:
            chunks[index].append(rank)
        else:
            if index:
                index = bisect_left(chunks, rank, key=_LAST)
            insort(chunks[index], rank)
        chunk = chunks[index]
        if len(chunk) > 2 * CHUNK:
            chunks.insert(index + 1, chunk[CHUNK:])
            del chunk[CHUNK:]

    def discard(self, rank: Rank, item: T) -> None:
        """Take *item* out, if it is there under this rank."""
        if self._items.get(rank) is item:
            del self._items[rank]
            chunks = self._chunks
            index = 0 if len(chunks) == 1 else bisect_left(chunks, rank, key=_LAST)
            chunk = chunks[index]
            del chunk[bisect_left(chunk, rank)]
            if not chunk:
                del chunks[index]

    def first(self) -> T | None:
        return self._items[self._chunks[0][0]] if self._chunks else None

    def __iter__(self) -> Iterator[T]:
        """Yield the items, the lowest rank first. Do not change the list meanwhile."""
        items = self._items
        for rank in self.ranks():
            yield items[rank]

    def __getitem__(self, rank: Rank) -> T:
        return self._items[rank]

    def ranks(self) -> Iterator[Rank]:
        """Yield the ranks, the lowest first. Do not change the list meanwhile."""
        return chain.from_iterable(self._chunks)

    def __len__(self) -> int:
        return len(self._items)


__all__ = ["Rank", "Ranked"]
