"""Heartbeats of agents and controllers: entries of the bucket `sluice_<cell>_heartbeats`.

Its key is `agent.<name>` or `controller.<name>`, the name as `key_token`; entries expire.
"""

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.events.base import Value


class AnyHeartbeat(Value, frozen=True, kw_only=True):
    """What every heartbeat says, whoever sends it; the rest is for people to read."""

    name: str
    instance: str
    """The process, as there can be several of one name."""


_DECODER = msgspec.json.Decoder(AnyHeartbeat)


def heartbeat_of(name: str, value: bytes | None) -> AnyHeartbeat | None:
    """Return the heartbeat of that name that a value is, None if it is none: then nobody is there.

    >>> heartbeat_of("a", b'{"name":"a","instance":"1"}')
    AnyHeartbeat(name='a', instance='1')
    >>> heartbeat_of("a", b"{}"), heartbeat_of("a", b'{"name":"b","instance":"1"}'), heartbeat_of("a", None)
    (None, None, None)
    """
    try:
        found = None if value is None else _DECODER.decode(value)
    except UNREADABLE:
        return None
    return found if found is not None and found.name == name else None
