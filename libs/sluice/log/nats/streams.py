"""Setting up what a cell needs on the server: its stream, and buckets."""

import contextlib
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from sluice.log.contract import MAX_PAYLOAD
from sluice.log.errors import AppendRefusedError, NoStreamError, StreamMismatchError
from sluice.protocol.query import LogStanding
from sluice.protocol.subjects import Cell

from . import jetstream_api as api
from .connection import Connection

__all__ = ["IMPORTED_TO", "RESTORING", "WHOLE", "Standing", "ensure_bucket", "look_at", "stream_config"]

NANOS = 1_000_000_000
DEDUP_WINDOW_S = 120
IMPORTED_TO = "sluice_imported_to"
"""In a stream's metadata: the last sequence that was restored from an archive."""
RESTORING = "sluice_restoring"
"""The same, while that is under way."""


def stream_config(cell: Cell, replicas: int = 1) -> dict[str, Any]:
    """Return the settings of a cell's stream, as JetStream's API has them."""
    return {
        "name": cell.stream,
        "description": f"Event log of the Sluice cell {cell.name}",
        "subjects": cell.captured(),
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": MAX_PAYLOAD,
        "duplicate_window": DEDUP_WINDOW_S * NANOS,
        "num_replicas": replicas,
        "allow_direct": True,
        # The log is the truth: nothing in it is ever taken away, but for what lies behind a verified base and
        # in an archive (`sluice.retention`). Who may cut is for the rights to say: a server does not take a
        # denial back.
        "deny_delete": True,
        "deny_purge": False,
    }


def bucket_config(bucket: str, replicas: int = 1, *, memory: bool = False) -> dict[str, Any]:
    """Return the settings of a key-value bucket whose entries may have a TTL of their own."""
    return {
        "name": f"KV_{bucket}",
        "subjects": [f"$KV.{bucket}.>"],
        "retention": "limits",
        "storage": "memory" if memory else "file",
        "discard": "new",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": 1,
        "max_msg_size": -1,
        # Message ids chain a projection's entries; repeating one is not what they are for.
        "duplicate_window": 1 * NANOS,
        "num_replicas": replicas,
        "allow_direct": True,
        # Else whoever may write one key could take all others away with it.
        "allow_rollup_hdrs": False,
        "allow_msg_ttl": True,
        # Servers before 2.12 do not know it: whoever writes looks whether it is there.
        "allow_atomic": True,
        "deny_delete": True,
        "first_seq": first_sequence(),
    }


def first_sequence() -> int:
    """Return the first sequence of a bucket that is made now: none that its predecessor has come to.

    A write names the sequence that it expects, of the bucket or of a key. One that was on its way when the
    bucket was lost would find that very sequence in a bucket that counts from 1 again. Microseconds since
    1970 stay below what a float holds exactly, and ahead of a bucket with less than a million writes a
    second.
    """
    return time.time_ns() // 1000


WHOLE = "=whole"
"""A key of a projection's bucket: while it is there, the bucket has everything that there should be.

Its entry is a deletion, so that nobody takes it for a value; it has no time to live. A bucket that was lost
and is written anew gets it last: until then, that a key is not there says nothing.
"""


_MUST_AGREE = (
    "retention",
    "storage",
    "discard",
    "max_msgs",
    "max_bytes",
    "max_age",
    "max_msgs_per_subject",
    "max_msg_size",
    "duplicate_window",
)
"""Settings on which correctness rests. An absent one has the server's zero value."""


def differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return what makes an existing stream unfit, in words."""
    wrong = [
        f"{key} is {found.get(key)!r}, must be {wanted[key]!r}"
        for key in _MUST_AGREE
        if key in wanted and (found.get(key) or 0) != (wanted[key] or 0)
    ]
    if wanted.get("allow_msg_ttl") and not found.get("allow_msg_ttl"):
        wrong.append("allow_msg_ttl is off, must be on")
    return wrong


async def ensure(connection: Connection, wanted: dict[str, Any]) -> None:
    """Create the stream, or check that the one that exists is fit; its subjects are brought up to date.

    Raises:
        StreamMismatchError: it exists with settings that it must not be run on.
        LogUnavailableError: JetStream is off or not ready.
    """
    config = await _existing(connection, wanted)
    if config is None:
        return
    if wrong := differences(wanted, config):
        raise StreamMismatchError(wanted["name"], wrong)
    missing = [subject for subject in wanted["subjects"] if subject not in config["subjects"]]
    if missing:
        await api.update(connection, {**config, "subjects": [*config["subjects"], *missing]})


async def _existing(connection: Connection, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """Return the settings of the stream that exists, None if it was made just now."""
    name = wanted["name"]
    with contextlib.suppress(NoStreamError):
        return dict((await api.info(connection, name))["config"])
    try:
        await api.create(connection, wanted)
    except AppendRefusedError as refused:
        # Another service may have created it meanwhile.
        try:
            return dict((await api.info(connection, name))["config"])
        except NoStreamError:
            raise refused from None
    return None


async def ensure_log(connection: Connection, cell: Cell, replicas: int = 1) -> None:
    """Create or check the stream of *cell*; raises as `ensure`."""
    await ensure(connection, stream_config(cell, replicas))


async def copies(connection: Connection, cell: Cell) -> int:
    """Return how many copies the servers keep of a cell's log, 0 if there is none, or this user may not ask.

    Raises:
        LogUnavailableError, ConnectionError, TimeoutError: nobody says.
    """
    try:
        found = await api.info(connection, cell.stream)
    except (NoStreamError, AppendRefusedError):
        return 0
    return int(found["config"].get("num_replicas", 1))


async def log_standing(connection: Connection, cell: Cell) -> tuple[LogStanding, int]:
    """Return how the log is stored, and its end.

    Raises:
        LogUnavailableError, ConnectionError, TimeoutError: nobody says.
    """
    found = await api.info(connection, cell.stream)
    state, others = found["state"], (found.get("cluster") or {}).get("replicas") or []
    last = int(state["last_seq"])
    current = sum(bool(one.get("current")) and not one.get("offline") for one in others)
    return LogStanding(
        first=int(state["first_seq"]) or last + 1,
        messages=int(state["messages"]),
        bytes=int(state["bytes"]),
        copies=int(found["config"].get("num_replicas", 1)),
        current=1 + current,  # who leads the stream has it whole
    ), last


class Standing(NamedTuple):
    """Where a bucket stands. *created*: tells it from one made in its place. *whole*: see `WHOLE`. *atomic*:
    takes atomic batches."""

    created: str
    last: int
    whole: bool
    replicas: int
    atomic: bool


async def look_at(connection: Connection, bucket: str) -> Standing | None:
    """Return where a bucket stands, None if there is none.

    Raises:
        LogUnavailableError: nobody says.
    """
    marker = f"$KV.{bucket}.{WHOLE}"
    try:
        found = await api.info(connection, f"KV_{bucket}", subjects=marker)
    except NoStreamError:
        return None
    state, config = found["state"], found["config"]
    return Standing(
        found.get("created", ""),
        int(state["last_seq"]),
        whole=marker in (state.get("subjects") or {}),
        replicas=int(config.get("num_replicas", 1)),
        atomic=bool(config.get("allow_atomic")),
    )


async def ensure_bucket(
    connection: Connection, bucket: str, replicas: int = 1, *, memory: bool = False
) -> None:
    """Create or check a key-value bucket; raises as `ensure`."""
    await ensure(connection, bucket_config(bucket, replicas, memory=memory))
