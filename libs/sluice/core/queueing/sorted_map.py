"""A list that stays sorted, for orders that change one entry at a time."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter

Rank = tuple[int, int, str]

_LAST = itemgetter(-1)

CHUNK = 512
"""Ranks are kept in chunks of up to twice this many: a change moves no more than one of them."""


class SortedMap[T]:
    """Items by rank. Ranks are unique within one list (they end in a uid)."""

    __slots__ = ("_chunks", "items")

    def __init__(self) -> None:
        self._chunks: list[list[Rank]] = []
        """Sorted, none of them empty."""
        self.items: dict[Rank, T] = {}
        """By rank, in no order; only the list itself changes it."""

    def add(self, rank: Rank, item: T) -> None:
        if rank not in self.items:
            self._insert(rank)
        self.items[rank] = item

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
        if self.items.get(rank) is item:
            del self.items[rank]
            chunks = self._chunks
            index = 0 if len(chunks) == 1 else bisect_left(chunks, rank, key=_LAST)
            chunk = chunks[index]
            del chunk[bisect_left(chunk, rank)]
            if not chunk:
                del chunks[index]

    def move(self, old: Rank, new: Rank, item: T) -> None:
        """Give *item*, which is there under *old*, the rank *new*. Most moves do not change its place."""
        items, chunks = self.items, self._chunks
        if len(chunks) != 1 or items.get(old) is not item or new in items:
            self.discard(old, item)
            self.add(new, item)
            return
        del items[old]
        items[new] = item
        chunk = chunks[0]
        if len(chunk) == 1:
            chunk[0] = new
            return
        index = bisect_left(chunk, old)
        if (not index or chunk[index - 1] < new) and (index + 1 == len(chunk) or new < chunk[index + 1]):
            chunk[index] = new
        else:
            del chunk[index]
            insort(chunk, new)

    def first(self) -> T | None:
        return self.items[self._chunks[0][0]] if self._chunks else None

    def __iter__(self) -> Iterator[T]:
        """Yield the items, the lowest rank first. Do not change the list meanwhile."""
        items = self.items
        for rank in self.ranks():
            yield items[rank]

    def listed(self) -> list[T]:
        """Return the items, the lowest rank first: quicker than to iterate where there are few."""
        items = self.items
        if len(items) == 1:
            return list(items.values())
        return [items[rank] for chunk in self._chunks for rank in chunk]

    def __getitem__(self, rank: Rank) -> T:
        return self.items[rank]

    def ranks(self) -> Iterator[Rank]:
        """Yield the ranks, the lowest first. Do not change the list meanwhile."""
        return chain.from_iterable(self._chunks)

    def __len__(self) -> int:
        return len(self.items)


__all__ = ["Rank"]
