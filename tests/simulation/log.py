"""The log: sequence numbers, the last message of each subject, message ids with a window.

Most runs keep commits as they were decided; `encoded` ones write and read bytes, as JetStream holds them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sluice.events.base import Micros
from sluice.events.codec import decode_commit, encode_commit, encode_step
from sluice.events.commit import Step
from sluice.log.contract import MAX_PAYLOAD, Ack, Entry
from sluice.log.errors import MessageTooLargeError, StaleSequenceError
from sluice.log.writer import ENVELOPE_ROOM
from sluice.protocol.subjects import COMMITS

SECOND: Micros = 1_000_000
START: Micros = 1_767_225_600_000_000
WINDOW: Micros = 120 * SECOND
"""How long a message id is remembered."""

STEP_MOST = MAX_PAYLOAD - ENVELOPE_ROOM
"""Bytes of a step that fits into a message, in which commits are cut where they are larger."""

_COMMITS = frozenset(COMMITS)


@dataclass
class SimLog:
    encoded: bool
    entries: list[Entry] = field(default_factory=list)
    heads: dict[str, int] = field(default_factory=dict)
    """Writer -> sequence of its last commit."""
    now: Micros = START
    listeners: list[Callable[[Entry], None]] = field(default_factory=list)
    _ids: dict[str, tuple[int, Micros]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return len(self.entries)

    def commit(
        self, writer: str, steps: Sequence[Step], expected: int, message_id: str, *, knows: bool = True
    ) -> Ack:
        """Store a commit, unless one of this id is there: a server that *knows* says so, as long as it can.

        Raises:
            StaleSequenceError: *expected* is not where the chain ends.
        """
        if knows and (known := self.known(message_id)):
            return Ack(known, duplicate=True)
        actual = self.heads.get(writer, 0)
        if actual != expected:
            raise StaleSequenceError(writer, expected, actual)
        payload: Any = tuple(steps)
        if self.encoded:
            payload = encode_commit("main", writer, message_id, steps)
            if len(payload) > STEP_MOST:
                _check_sizes(writer, steps)
        seq = self.heads[writer] = self.end + 1
        self._store(writer, payload, message_id)
        return Ack(seq)

    def last(self, writer: str) -> tuple[int, str]:
        """Return sequence and id of a chain's last commit, 0 and '' for none."""
        head = self.heads.get(writer, 0)
        return head, self.entries[head - 1].header.decode() if head else ""

    def message(self, suffix: str, payload: bytes, message_id: str) -> int | None:
        """Store a message from outside; None if one of this id is there already."""
        if self.known(message_id):
            return None
        return self._store(suffix, payload, message_id)

    def known(self, message_id: str) -> int:
        """Return the sequence of a message of this id, 0 if the window has none."""
        found = self._ids.get(message_id)
        return found[0] if found is not None and self.now - found[1] < WINDOW else 0

    def _store(self, suffix: str, payload: Any, message_id: str) -> int:
        entry = Entry(len(self.entries) + 1, suffix, self.now, payload, message_id.encode())
        self.entries.append(entry)
        self._ids[message_id] = (entry.seq, self.now)
        for listener in self.listeners:
            listener(entry)
        return entry.seq


def _check_sizes(writer: str, steps: Sequence[Step]) -> None:
    """What a decider decides at once fits into a message, or its service would stand still for ever.

    Raises:
        MessageTooLargeError: it does not.
    """
    for step in steps:
        if (size := len(encode_step(step))) > STEP_MOST:
            raise MessageTooLargeError(writer, size, STEP_MOST)


def steps_of(entry: Entry) -> tuple[Step, ...]:
    """Return the steps of a commit, decoded if they are bytes."""
    payload: Any = entry.payload
    return payload if type(payload) is tuple else tuple(decode_commit(payload).steps)


def as_bytes(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield entries as a cell would have written them."""
    for entry in entries:
        if entry.suffix in _COMMITS and type(cast(Any, entry.payload)) is tuple:
            payload = encode_commit("main", entry.suffix, entry.header.decode(), steps_of(entry))
            yield Entry(entry.seq, entry.suffix, entry.at, payload)
        else:
            yield Entry(entry.seq, entry.suffix, entry.at, entry.payload)


__all__ = ["SECOND", "START", "SimLog", "as_bytes", "steps_of"]
