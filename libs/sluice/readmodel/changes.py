"""Changes of objects by sequence: what a watch answers from."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

TOMBSTONES = 20_000
"""Deletions remembered; who has not asked for longer lists again."""


class Gone(NamedTuple):
    seq: int
    kind: str
    key: str


class Changes:
    """Per kind, the keys in order of their last change: one entry per object, however often it changes."""

    def __init__(
        self, changed: dict[str, dict[str, int]] | None = None, gone: Iterable[Gone] = (), forgotten: int = 0
    ) -> None:
        self.changed: dict[str, dict[str, int]] = {} if changed is None else changed
        """Kind -> key -> sequence of its last change."""
        self.gone: deque[Gone] = deque(gone, maxlen=TOMBSTONES)
        self.forgotten = forgotten
        """Deletions up to this sequence are not remembered any more."""

    def touch(self, kind: str, key: str, seq: int) -> None:
        """Record that the object changed at *seq*; sequences never go back."""
        self.touch_all(kind, (key,), seq)

    def touch_all(self, kind: str, keys: Iterable[str], seq: int) -> None:
        """Record that objects of one kind changed at *seq*, in this order."""
        changed = self.changed.setdefault(kind, {})
        for key in keys:
            # Taken out and put in again: the dictionary's order is the order of changes.
            changed.pop(key, None)
            changed[key] = seq

    def drop(self, kind: str, key: str, seq: int) -> None:
        """Record that the object is gone since *seq*."""
        if self.changed.get(kind, {}).pop(key, None) is None:
            return
        if len(self.gone) == TOMBSTONES:
            self.forgotten = self.gone[0].seq
        self.gone.append(Gone(seq, kind, key))

    def version(self, kind: str, key: str) -> int:
        """Return the sequence of the object's last change, 0 when unknown."""
        return self.changed.get(kind, {}).get(key, 0)

    def since(self, kind: str, seq: int) -> list[str]:
        """Return the keys changed after *seq*, in order of their last change."""
        found = []
        for key, changed in reversed(self.changed.get(kind, {}).items()):
            if changed <= seq:
                break
            found.append(key)
        found.reverse()
        return found

    def gone_since(self, kind: str, seq: int) -> Iterator[Gone]:
        """Yield what was deleted after *seq* and has not come back, in order."""
        here = self.changed.get(kind, {})
        for gone in self.gone:
            if gone.seq > seq and gone.kind == kind and gone.key not in here:
                yield gone
