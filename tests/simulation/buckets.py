"""Key-value buckets: latest values, revisions, times to live, watchers that lag or miss changes."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sluice.events.base import Micros


@dataclass(slots=True)
class Kept[V]:
    value: V
    revision: int
    expires: Micros | None = None


@dataclass
class Bucket[V]:
    """*now* tells the time, for values that expire."""

    now: Callable[[], Micros]
    values: dict[str, Kept[V]] = field(default_factory=dict)
    changes: list[tuple[str, V | None]] = field(default_factory=list)
    """All that was ever written, for watchers."""
    life: int = 0
    """Counts how often the bucket was deleted: whoever watched it begins anew."""

    @property
    def revision(self) -> int:
        return len(self.changes)

    def get(self, key: str) -> Kept[V] | None:
        kept = self.values.get(key)
        if kept is not None and kept.expires is not None and kept.expires <= self.now():
            del self.values[key]
            return None
        return kept

    def put(
        self, key: str, value: V, *, expected: int | None = None, expires: Micros | None = None
    ) -> int | None:
        """Store a value; None if the key's revision is not the expected one (0: there is none)."""
        if expected is not None:
            kept = self.get(key)
            if (kept.revision if kept is not None else 0) != expected:
                return None
        self.changes.append((key, value))
        self.values[key] = Kept(value, self.revision, expires)
        return self.revision

    def delete(self, key: str) -> None:
        if self.values.pop(key, None) is not None:
            self.changes.append((key, None))

    def clear(self) -> None:
        """The bucket is deleted, and made again by whoever needs it next; watchers are not told."""
        self.values.clear()
        self.life += 1


@dataclass
class Watcher[V]:
    """Follows a bucket at its own pace: changes in order, or after a gap what there is now."""

    bucket: Bucket[V]
    position: int = 0
    life: int = 0

    @property
    def lag(self) -> int:
        return self.bucket.revision - self.position

    def take(self, most: int) -> list[tuple[str, V | None]]:
        """Return the next changes."""
        end = min(self.position + most, self.bucket.revision)
        found = self.bucket.changes[self.position : end]
        self.position = end
        return found

    def begin_anew(self) -> list[tuple[str, V | None]]:
        """Return what there is now; deletions before it are not told."""
        self.position, self.life = self.bucket.revision, self.bucket.life
        return [(key, kept.value) for key, kept in self.bucket.values.items()]


__all__ = ["Bucket", "Kept", "Watcher"]
