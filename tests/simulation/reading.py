"""What a message says is found out once, however many replicas read it.

In a cell each service reads a message in a process of its own, and again after each restart; here they
are all in one. What reading comes to depends on the bytes and the subject alone and is never changed, so
it is shared, as the events of commits are. Where everything is written and read as bytes nothing is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sluice.core.slices.intake import Inbound

_open: Any = Inbound._opened
_read: Any = Inbound._read

_envelopes: dict[tuple[bytes, str], Any] = {}
_bodies: dict[tuple[bytes, str], Any] = {}


def _opened(self: Inbound) -> Any:
    if self._envelope is None:
        key = (self.payload, self.subject)
        known = _envelopes.get(key)
        self._envelope = known if known is not None else _envelopes.setdefault(key, _open(self))
    return self._envelope


def _body(self: Inbound) -> Any:
    if self._body is None:
        key = (self.payload, self.subject)
        known = _bodies.get(key)
        self._body = known if known is not None else _bodies.setdefault(key, _read(self))
    return self._body


@contextmanager
def shared() -> Iterator[None]:
    """Share what messages about jobs say, for as long as this is entered."""
    Inbound._opened, Inbound._read = _opened, _body  # type: ignore[method-assign]
    try:
        yield
    finally:
        Inbound._opened, Inbound._read = _open, _read  # type: ignore[method-assign]
        _envelopes.clear()
        _bodies.clear()


__all__ = ["shared"]
