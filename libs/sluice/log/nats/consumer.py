"""The consumer behind a reader: how it is asked for, and what its answers mean. No input or output here.

Readers use a throw-away pull consumer without acknowledgements. It is never trusted to remember
anything: after every doubt (a gap, a reconnect, a restart) a new one is made from the reader's position.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sluice.events.base import Micros
from sluice.events.codec import rfc3339
from sluice.log.contract import IMPORTED_AT, Entry
from sluice.log.errors import EventLogError
from sluice.protocol.subjects import COMMITS, OUTSIDE, matches_any

from .protocol import Frame, delivery_parts, description_of, status_of
from .streams import IMPORTED_TO, NANOS

__all__ = ["HistoryLostError", "LogReplacedError", "StreamReplacedError"]

PULL_MESSAGES = 10_000
PULL_BYTES = 32 * 1024 * 1024
"""Below the server's limit of unsent bytes per client, above the largest message."""
PULL_EXPIRES_S = 60
HEARTBEAT_S = 10.0
NEAR_HEARTBEAT_S = 0.5
"""The same where a consumer may be on another server than the reader: nobody is told when that one dies."""
MISSED = 2
"""So many looks in a row that find no heartbeat mean that the server has forgotten the pull. One may only
come too soon after a turn of the event loop that took long."""
SETUP_FIRST_S, SETUP_GROWTH, SETUP_MOST_S = 0.75, 1.1, 5.0
"""Time for an answer while a consumer is made, and how it grows with the attempts. What is asked while a
cluster has no leader is never answered, nor if the consumer is given to a server that has just died."""
INACTIVE_S = 60

MANY = "job.>"
"""A subject per job. A server that is asked for these beside other subjects goes through thousands of them
for every message that it delivers from its store: 110 us each were measured, and 10 us for everything."""

Wanted = Callable[[str], bool] | None
"""Tells of a suffix whether it is wanted; None: all are."""


def asked_for(filters: Sequence[str]) -> tuple[list[str], Wanted]:
    """Return what to ask the server for to read *filters* (none: everything), and what of that is wanted."""
    if not filters or set(filters) >= {*OUTSIDE, *COMMITS}:
        return [">"], None
    if len(filters) == 1 or MANY not in filters:
        return list(filters), None
    plain = frozenset(pattern for pattern in filters if "*" not in pattern and ">" not in pattern)
    patterns = [pattern for pattern in filters if pattern not in plain and pattern != MANY]

    def wanted(suffix: str) -> bool:
        return suffix.startswith("job.") or suffix in plain or matches_any(patterns, suffix)

    return [">"], wanted


class LogReplacedError(EventLogError):
    """The log is not the one that was read: it ends before that position, or has another message there."""

    def __init__(self, stream: str, position: int, last: int) -> None:
        now = f"now ends at {last}" if last < position else "has another message there now"
        super().__init__(f"{stream}: had read up to seq {position}, but the log {now}")
        self.stream, self.position, self.last = stream, position, last


class StreamReplacedError(EventLogError):
    """A stream beside the log (a bucket) was deleted and made again, or has lost what was read of it."""

    def __init__(self, stream: str) -> None:
        super().__init__(f"{stream}: is another one than was read, and must be read anew")
        self.stream = stream


class HistoryLostError(EventLogError):
    """The log begins after the position to read from."""

    def __init__(self, stream: str, position: int, first: int) -> None:
        super().__init__(f"{stream}: to be read from seq {position + 1}, but the log begins at {first}")
        self.stream, self.position, self.first = stream, position, first


def imported_at(header: bytes, at: Micros) -> Micros:
    """Return when the first log of a message had taken it, *at* if it does not say."""
    _, found, rest = header.partition(IMPORTED_AT + b":")
    digits = rest.split(b"\r\n", 1)[0].strip()
    return int(digits) if found and digits.isdigit() and len(digits) < 19 else at


def imported_to(info: dict[str, Any]) -> int:
    """Return up to where a stream was restored, 0 if it was not."""
    said = str((info["config"].get("metadata") or {}).get(IMPORTED_TO, ""))
    return int(said) if said.isdigit() else 0


def create_request(stream: str, name: str, start: int, subjects: Sequence[str]) -> dict[str, Any]:
    """Return the body that creates the consumer *name* at *start*."""
    config: dict[str, Any] = {
        "name": name,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": start,
        "ack_policy": "none",
        "replay_policy": "instant",
        "max_deliver": -1,
        "inactive_threshold": INACTIVE_S * NANOS,
        "num_replicas": 1,
        "mem_storage": True,
    }
    if len(subjects) == 1:
        config["filter_subject"] = subjects[0]
    else:
        config["filter_subjects"] = list(subjects)
    return {"stream_name": stream, "config": config}


def look_request(stream: str, name: str, after: Micros, subjects: Sequence[str]) -> dict[str, Any]:
    """Return the body that creates the consumer *name* at the first message taken after that moment.

    Not to be read from: where it would begin tells whether what was read is still there (`check_place`).
    """
    body = create_request(stream, name, 1, subjects)
    del body["config"]["opt_start_seq"]
    return body | {
        "config": body["config"] | {"deliver_policy": "by_start_time", "opt_start_time": rfc3339(after + 1)}
    }


def check_place(stream: str, made: dict[str, Any], position: int) -> None:
    """Check, by the answer to `look_request`, that nothing younger stands at or before *position*.

    Of a bucket the message that was read last may be gone, as its key was written again. But where an older
    one was put back, what was written since stands at sequences that were read before, and is younger.

    Raises:
        StreamReplacedError: something does.
    """
    if int(made["delivered"]["stream_seq"]) < position:
        raise StreamReplacedError(stream)


def check_history(stream: str, state: dict[str, Any], position: int) -> None:
    """Check that the log still holds what follows *position*.

    Raises:
        LogReplacedError, HistoryLostError: it does not.
    """
    first, last = int(state["first_seq"]), int(state["last_seq"])
    if position > last:
        raise LogReplacedError(stream, position, last)
    if first > position + 1:
        raise HistoryLostError(stream, position, first)


def may_be_behind(info: dict[str, Any]) -> bool:
    """Tell of a stream whether a consumer may be on a server that has less of it than the stream's leader."""
    return bool((info.get("cluster") or {}).get("replicas"))


def in_cluster(info: dict[str, Any]) -> bool:
    """Tell of a stream whether its consumers may be on another server than their readers."""
    return bool((info.get("cluster") or {}).get("name"))


def pull_request(heartbeat_s: float = HEARTBEAT_S) -> dict[str, Any]:
    return {
        "batch": PULL_MESSAGES,
        "max_bytes": PULL_BYTES,
        "expires": PULL_EXPIRES_S * NANOS,
        "idle_heartbeat": round(heartbeat_s * NANOS),
    }


def pull_ended(header: bytes) -> bool | None:
    """Tell what a status message means: True, ask for more; None, nothing; False, the consumer is gone."""
    status = status_of(header)
    if status == 100:
        return None
    if status in (404, 408):
        return True
    if status == 409:
        words = description_of(header).lower()
        return "maxbytes" in words or "batch completed" in words
    return False


class Deliveries:
    """Turns the frames of one consumer after another into entries, and sees to it that none is missing.

    A consumer numbers what it delivers from 1; the log's own numbers grow, with gaps where other subjects
    are.
    """

    __slots__ = (
        "_prefix",
        "_wanted",
        "_whole",
        "gap",
        "imported",
        "newest",
        "number",
        "pending",
        "position",
        "stamp",
        "statuses",
        "taken",
    )

    def __init__(self, prefix: str, position: int, wanted: Wanted = None, *, whole: bool = True) -> None:
        """*whole*: nothing vanishes from the stream but what a cut takes away at its beginning."""
        self._prefix, self._wanted, self._whole = len(prefix), wanted, whole
        self.position = position
        """Sequence of the last delivery."""
        self.stamp = 0
        """When the stream took that message; 0: none was delivered."""
        self.number = 0
        """Of the last delivery of the present consumer."""
        self.pending = 0
        """Matching messages that the server had left at the last delivery."""
        self.newest = 0
        """Sequence of a matching message that there is for certain: a server without it is behind."""
        self.taken = 0
        """Deliveries of the last `take`, those included that are not wanted."""
        self.gap: tuple[int, int] | None = None
        """Delivery expected and delivery received, once they differ: a new consumer is needed."""
        self.imported = 0
        """Up to here the log was restored from an archive: messages say themselves when they were taken."""
        self.statuses: list[Frame] = []
        """Frames that are no messages, for the caller to take and clear."""

    def restart(self, pending: int) -> None:
        """Expect the first delivery of a new consumer, which begins behind `position`."""
        self.number, self.pending, self.gap = 0, pending, None

    def reached(self, end: int) -> bool:
        """Tell whether all matching messages up to *end* were delivered."""
        return self.position >= end or (self.pending == 0 and self.position >= self.newest)

    def take(self, frames: Sequence[Frame], sid: bytes) -> list[Entry]:
        """Return the entries in those of *frames* that are of subscription *sid*, up to a gap."""
        entries: list[Entry] = []
        add, new, cut = entries.append, tuple.__new__, self._prefix
        number, position, wanted = self.number, self.position, self._wanted
        parts: list[bytes] = []
        last: list[bytes] = []
        for frame in frames:
            subject, its_sid, reply, header, payload = frame
            if its_sid != sid:
                continue
            if not reply:
                self.statuses.append(frame)
                continue
            parts = reply.split(b".")
            if len(parts) != 9:
                parts = delivery_parts(reply)
            seq = int(parts[5])
            if int(parts[6]) != number + 1 or seq <= position:
                self.gap = (number + 1, int(parts[6]))
                break
            number += 1
            position, last = seq, parts
            suffix = subject[cut:].decode(errors="backslashreplace")  # a subject may be any bytes
            if wanted is None or wanted(suffix):
                at = int(parts[7]) // 1000
                if seq <= self.imported:
                    at = imported_at(header, at)
                add(new(Entry, (seq, suffix, at, payload, header)))
        if parts:
            pending = int(parts[8])
            if self._whole and pending < self.pending - (number - self.number):
                # Fewer are left than there were, less those that came: the log was cut off in front of this
                # reader, which is to look again from where it stands whether all is there.
                self.gap = (self.number + 1, number)
                self.taken = 0
                return []
            self.pending = pending
        if last:
            self.stamp = int(last[7]) // 1000
        self.taken = number - self.number
        self.number, self.position = number, position
        return entries
