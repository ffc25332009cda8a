"""Redaction: values of environments, or all that `sluice log export --redact` leaves out."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.log.contract import Entry, Log, Tail
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.protocol.subjects import job_of
from sluice.replay.extract.redact import Redactor
from sluice.replay.source.source import Source

LEVELS = ("none", "env", "all")
HIDDEN = "hidden"
Cover = Callable[[Entry], Entry]


def everything() -> Cover:
    """Return what leaves out commands, environments, images and what executors say."""
    redactor = Redactor(os.urandom(16))
    return lambda entry: redactor.commit(redactor.entry(entry))


def environment(entry: Entry) -> Entry:
    """Return a message without the values of environment variables; their names stay."""
    if b'"env"' not in entry.payload or job_of(entry.suffix) is None:
        return entry
    try:
        whole = msgspec.json.decode(entry.payload)
    except UNREADABLE:
        return entry
    return entry._replace(payload=msgspec.json.encode(_hidden(whole)))


def _hidden(value: Any) -> Any:
    if isinstance(value, list):
        return [_hidden(member) for member in value]
    if not isinstance(value, dict):
        return value
    return {name: _variables(one) if name == "env" else _hidden(one) for name, one in value.items()}


def _variables(env: Any) -> Any:
    """Return variables by name, as a map or as Kubernetes lists them."""
    if isinstance(env, dict):
        return dict.fromkeys(env, HIDDEN)
    if isinstance(env, list):
        return [
            {**one, "value": HIDDEN} if isinstance(one, dict) and "value" in one else _hidden(one)
            for one in env
        ]
    return HIDDEN


class Covered:
    """A log of which something is left out wherever it is read."""

    def __init__(self, source: Source, cover: Cover) -> None:
        self._source, self._cover = source, cover
        self.name, self.header = source.name, source.header

    @property
    def first(self) -> int:
        return self._source.first

    @property
    def end(self) -> int:
        return self._source.end

    @property
    def earlier(self) -> str:
        return self._source.earlier

    def read(
        self, start: int = 1, until: int | None = None, patterns: Iterable[str] = ()
    ) -> Iterator[list[Entry]]:
        for entries in self._source.read(start, until, patterns):
            yield [self._cover(entry) for entry in entries]

    def base(self, decider: Decider[Any]) -> Fold[Any] | None:
        return self._source.base(decider)

    def snapshot(self, decider: Decider[Any], upto: int) -> Fold[Any] | None:  # noqa: ARG002
        """Return None: states that others have stored have everything in them."""
        return None


class CoveredLog:
    """A log that is followed, of which something is left out."""

    def __init__(self, log: Log, cover: Cover) -> None:
        self._log, self._cover = log, cover

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def tail(self, *given: Any) -> "CoveredTail":
        return CoveredTail(self._log.tail(*given), self._cover)


class CoveredTail:
    """As the tail that it reads, with less in it."""

    def __init__(self, tail: Tail, cover: Cover) -> None:
        self._tail, self._cover = tail, cover

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tail, name)

    def take(self) -> list[Entry]:
        return [self._cover(entry) for entry in self._tail.take()]
