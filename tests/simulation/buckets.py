"""Key-value buckets: latest values, sequences, times to live, watchers that lag or lose their place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sluice.events.base import Micros
from sluice.log.nats.streams import WHOLE

LIFE = 1_000_000
"""More entries than a bucket of a run ever gets."""


@dataclass(slots=True)
class Kept[V]:
    value: V
    revision: int
    expires: Micros | None = None


class Refusal(Enum):
    """Why an entry is not taken."""

    ANOTHER_LAST = "its condition does not hold"
    INCOMPLETE = "its batch lacks an entry"


@dataclass
class Intake[E]:
    """What a stream takes of entries that arrive one after the other, by the conditions in their headers.

    `tests/integration/log/test_projection_entries.py` holds it to the server.
    """

    last_id: str = ""
    """Message id of the last entry, '' if it has none."""
    batches: dict[str, list[tuple[E, Mapping[str, str]]]] = field(default_factory=dict)
    """Batch id -> what has come of it."""

    def arrives(self, entry: E, headers: Mapping[str, str], end: int) -> list[E] | Refusal:
        """Return the entries that are stored now, behind sequence *end*: none until a batch is complete."""
        batch = headers.get("Nats-Batch-Id")
        if batch is None:
            return self._stored([(entry, headers)], end)
        staged = self.batches.setdefault(batch, [])
        staged.append((entry, headers))
        if int(headers["Nats-Batch-Sequence"]) != len(staged):
            del self.batches[batch]
            return Refusal.INCOMPLETE
        if "Nats-Batch-Commit" not in headers:
            return []
        return self._stored(self.batches.pop(batch), end)

    def _stored(self, entries: list[tuple[E, Mapping[str, str]]], end: int) -> list[E] | Refusal:
        headers = entries[0][1]
        if headers.get("Nats-Expected-Last-Sequence", str(end)) != str(end):
            return Refusal.ANOTHER_LAST
        if headers.get("Nats-Expected-Last-Msg-Id", self.last_id) != self.last_id:
            return Refusal.ANOTHER_LAST
        self.last_id = entries[-1][1].get("Nats-Msg-Id", "")
        return [entry for entry, _ in entries]

    def forget(self) -> None:
        self.last_id = ""
        self.batches.clear()


@dataclass
class Bucket[V]:
    """*now* tells the time, for values that expire."""

    now: Callable[[], Micros]
    values: dict[str, Kept[V]] = field(default_factory=dict)
    changes: list[tuple[str, V | None]] = field(default_factory=list)
    """All that was ever written in this life, for watchers."""
    deleted: dict[str, None] = field(default_factory=dict)
    """Keys of which only a deletion is left."""
    life: int = 1
    """Counts how often the bucket was made: whoever watches it begins anew."""
    exists: bool = False
    whole: bool = False
    """A projection's: whether all of it is written (`sluice.log.nats.streams.WHOLE`)."""
    last_of: int = 0
    """Which commit the last entry is of, 0 if it does not say."""
    intake: Intake[Any] = field(default_factory=Intake)
    """Of a projection's entries."""

    @property
    def revision(self) -> int:
        """The last sequence: none of an earlier life (`sluice.log.nats.streams.first_sequence`)."""
        return self.life * LIFE + len(self.changes)

    def make(self) -> None:
        self.exists = True

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
        self.exists = True
        self.changes.append((key, value))
        self.values[key] = Kept(value, self.revision, expires)
        self.deleted.pop(key, None)
        return self.revision

    def show(self, key: str, value: V | None, of: int) -> None:
        """Write an entry of a projection; None deletes the key."""
        self.last_of = of
        if value is not None:
            self.put(key, value)
            return
        self.changes.append((key, None))
        if key == WHOLE:
            self.whole = True
        else:
            self.values.pop(key, None)
            self.deleted[key] = None

    def until(self, end: int) -> dict[str, V]:
        """Return what is left of the entries up to a sequence."""
        return {key: kept.value for key, kept in self.values.items() if kept.revision <= end}

    def lose(self) -> None:
        """The bucket is deleted, and made again by whoever needs it next; nobody is told."""
        self.values.clear()
        self.deleted.clear()
        self.changes.clear()
        self.life += 1
        self.last_of = 0
        self.intake.forget()
        self.exists = self.whole = False


@dataclass
class Watcher[V]:
    """Follows a bucket at its own pace: changes in order, or after a gap the latest of each key."""

    bucket: Bucket[V]
    position: int = 0
    life: int = -1

    @property
    def lost(self) -> bool:
        """Is there nothing to go on from: at the beginning, or because the bucket is another one?"""
        return self.life != self.bucket.life

    @property
    def behind(self) -> bool:
        bucket = self.bucket
        return self.life != bucket.life or self.position < len(bucket.changes)

    def take(self, most: int) -> list[tuple[str, V | None]]:
        """Return the next changes."""
        end = min(self.position + most, len(self.bucket.changes))
        found = self.bucket.changes[self.position : end]
        self.position = end
        return [each for each in found if each[0] != WHOLE]

    def begin_anew(self) -> list[tuple[str, V | None]]:
        """Return the latest of each key, deletions too; what a lost bucket had is not told."""
        bucket = self.bucket
        self.position, self.life = len(bucket.changes), bucket.life
        found: list[tuple[str, V | None]] = [(key, kept.value) for key, kept in bucket.values.items()]
        return [*found, *((key, None) for key in bucket.deleted)]


__all__ = ["Bucket", "Intake", "Kept", "Refusal", "Watcher"]
