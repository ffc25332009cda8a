"""Making a log fit to share: what jobs run and say is left out, what is decided stays.

Two different commands stay different: deciders compare manifests. So each secret is replaced by a digest with
a salt that nobody keeps.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from sluice.events.base import Event
from sluice.events.codec import decode_message, encode_commit, message_id_of
from sluice.events.commit import Step
from sluice.events.slices import Rejected, WorkloadFinished, WorkloadStopped
from sluice.log.contract import Entry
from sluice.log.fold import steps_of
from sluice.protocol.subjects import COMMITS

from .redecide import redecided

SECRET = ("command", "args", "env", "workingDir", "message", "image", "volumes", "envFrom")


@dataclass(frozen=True)
class Redactor:
    """*salt*: the same value gets the same stand-in within one log, and nobody can guess it from that."""

    salt: bytes

    def entry(self, entry: Entry) -> Entry:
        """Return a message from outside without its secrets; commits are left alone."""
        if entry.suffix in COMMITS:
            return entry
        message = decode_message(entry.payload)
        if isinstance(message, tuple):
            return entry._replace(payload=b'{"redacted":"unreadable"}')
        whole = msgspec.json.decode(entry.payload)
        whole["source"] = self._digest(message.source)
        if "data" in whole:
            whole["data"] = self._stripped(whole["data"])
        return entry._replace(payload=msgspec.json.encode(whole))

    def _stripped(self, value: object) -> object:
        if isinstance(value, dict):
            return {k: self._blank(k, v) if k in SECRET else self._stripped(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._stripped(member) for member in value]
        return value

    def _blank(self, name: str, value: object) -> object:
        """Return a value of the same shape that says nothing but whether it is the same as another one."""
        if not value:
            return value
        stand_in = f"redacted-{self._digest(value)}"
        if isinstance(value, str):
            return stand_in
        if isinstance(value, list):
            if all(isinstance(v, str) for v in value):
                return [stand_in]
            if name == "envFrom":
                return [{"configMapRef": {"name": stand_in}}]
            return [{"name": stand_in}]
        return {stand_in: ""} if isinstance(value, dict) else value

    def _digest(self, value: object) -> str:
        data = value.encode() if isinstance(value, str) else msgspec.json.encode(value, order="sorted")
        return hashlib.sha256(self.salt + data).hexdigest()[:12]

    def commit(self, entry: Entry) -> Entry:
        """Return a commit of the slice-aggregator without what executors have said; others are left alone."""
        if entry.suffix != "slices":
            return entry
        steps = [
            Step(upto=step.upto, at=step.at, events=tuple(self._event(event) for event in step.events))
            for step in steps_of(entry)
        ]
        payload = encode_commit("main", entry.suffix, message_id_of(entry.payload), steps)
        return entry._replace(payload=payload)

    def _event(self, event: Event) -> Event:
        if isinstance(event, Rejected):
            return msgspec.structs.replace(event, errors=())
        if isinstance(event, WorkloadFinished | WorkloadStopped) and event.message:
            return msgspec.structs.replace(event, message=f"redacted-{self._digest(event.message)}")
        return event


class OtherDecisionsError(ValueError):
    """The log was written by code that decided otherwise, so it cannot be decided anew."""


def redacted(batches: Iterable[list[Entry]], redactor: Redactor) -> Iterator[list[Entry]]:
    """Yield the messages without what jobs run and say: commands, environments, images, output.

    Names, numbers and labels stay: decisions depend on them. Commits say what they said, but for what came
    from executors.
    """
    for entries in batches:
        yield [redactor.commit(redactor.entry(entry)) for entry in entries]


def redacted_whole(batches: Iterable[list[Entry]], redactor: Redactor, cell: str) -> Iterator[list[Entry]]:
    """The same of a whole log, decided anew: the same decisions, and it decides itself again (`verify`).

    Raises:
        OtherDecisionsError: today's code decides otherwise, with or without secrets.
    """
    written: deque[Entry] = deque()

    def inputs() -> Iterator[Entry]:
        for entries in batches:
            written.extend(entry for entry in entries if entry.suffix in COMMITS)
            yield from entries

    for entry in redecided(inputs(), redactor.entry, cell):
        if entry.suffix in COMMITS:
            before = written.popleft()
            while before.seq < entry.seq:
                if _shape(before):
                    raise OtherDecisionsError(f"commit {before.seq} of {before.suffix}")
                before = written.popleft()
            if _shape(before) != _shape(entry):
                raise OtherDecisionsError(f"commit {entry.seq} of {entry.suffix}")
        yield [entry]


def _shape(entry: Entry) -> list[str]:
    return [type(event).__name__ for step in steps_of(entry) for event in step.events]


__all__ = ["OtherDecisionsError", "Redactor", "redacted", "redacted_whole"]
