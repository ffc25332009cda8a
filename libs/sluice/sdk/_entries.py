"""Entries of the dispatch bucket, where anybody who may write may put anything."""

import msgspec
import structlog

from sluice.api.errors import UNREADABLE
from sluice.protocol.dispatch import DispatchEntry

log = structlog.get_logger("sluice.sdk.dispatch")

_ENTRIES = msgspec.json.Decoder(DispatchEntry)


def read_entry(key: str, value: bytes) -> DispatchEntry | None:
    """Return the entry under a key; None for what is none: it is passed over, and soon written over."""
    try:
        return _ENTRIES.decode(value)
    except UNREADABLE as error:
        log.error("unreadable dispatch entry", key=key, error=str(error))
        return None
