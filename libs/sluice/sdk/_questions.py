"""Questions of an executor's machine, put to the server: buckets, and the log."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.events.codec import CloudEvent, decode_message
from sluice.events.job import JobEvent, JobFinished, JobPodsReady, JobPodsReclaimable, JobStopped
from sluice.log.errors import EventLogError, StaleSequenceError
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.kv import Bucket
from sluice.protocol.dispatch import Claim, DispatchEntry, dispatch_key, key_text, key_token
from sluice.protocol.heartbeats import heartbeat_of
from sluice.protocol.subjects import job_suffix

from ._client import AsyncClient, split
from ._errors import NotPublishedError
from .execution import actions

AGENT = "agent"
FEW = 16
"""More messages than this are not asked for one by one."""

_ENTRIES = msgspec.json.Decoder(DispatchEntry)
_CLAIMS = msgspec.json.Decoder(Claim)
_REPORTS: dict[str, type[JobEvent]] = {
    kind.__name__: kind for kind in (JobPodsReady, JobPodsReclaimable, JobStopped, JobFinished)
}


class Questions:
    """Raises what `sluice.sdk._work.Unavailable` names when there is no answer."""

    def __init__(self, client: AsyncClient, executor: str, namespaces: Sequence[str] = ()) -> None:
        self.client = client
        self._spaces = [key_token(name) for name in namespaces]
        self.dispatch = Bucket(client.log, "dispatch")
        self._claims = Bucket(client.log, "claims")
        self._heartbeats = Bucket(client.log, "heartbeats", memory=True)
        self._executor = executor
        self._beat = f"{AGENT}.{key_token(executor)}"

    def follow(self) -> AsyncIterator[list[tuple[str, bytes | None]]]:
        """Yield what is wanted, and what changes about that, of the namespaces that are served."""
        return self.dispatch.follow(*(f"{space}.>" for space in self._spaces))

    async def ask(self, request: actions.Request) -> actions.Answer:
        match request:
            case actions.GetEntry(job):
                found = await self.dispatch.certainly(dispatch_key(job))
                return actions.Absent() if found is None else actions.HasEntry(_entry(found.key, found.value))
            case actions.GetClaim(key):
                return await self._claim(key)
            case actions.PutClaim(key, claim, revision, ttl_s):
                return await self._put(self._claims, key, claim, revision, ttl_s)
            case actions.ListClaims():
                return await self._all_claims()
            case actions.GetHeartbeat():
                value = await self._heartbeats.get(self._beat)
                beat = None if value is None else heartbeat_of(self._executor, value.value)
                # What is no heartbeat is nobody's: the next beat is put over it.
                return actions.Absent() if beat is None else actions.HasHeartbeat(beat)
            case actions.PutHeartbeat(heartbeat, expected, lasts_s):
                return await self._put(self._heartbeats, self._beat, heartbeat, expected, lasts_s)
            case actions.ListHeartbeats():
                keys = await self._heartbeats.keys(AGENT)
                return actions.Present(frozenset(key_text(key.removeprefix(f"{AGENT}.")) for key in keys))
            case actions.RemoveHeartbeat():
                await self._heartbeats.remove(self._beat)
                return actions.Stored()
            case actions.ReadJob():
                return await self._read(request)
            case actions.Publish():
                return await self._publish(request)
            case _:
                raise TypeError(f"{type(request).__name__} is no question to the server")

    # buckets

    async def _put(
        self, bucket: Bucket, key: str, value: object, revision: int | None, ttl_s: float | None
    ) -> actions.Answer:
        try:
            return actions.Stored(
                await bucket.put(key, msgspec.json.encode(value), revision=revision, ttl_s=ttl_s)
            )
        except StaleSequenceError:
            return actions.Refused()

    async def _claim(self, key: str) -> actions.HasClaim | actions.Absent:
        found = await self._claims.get(key)
        return actions.Absent() if found is None else actions.HasClaim(_claim(found.value), found.revision)

    async def _all_claims(self) -> actions.HasClaims:
        await self._claims.ensure()
        claims = []
        keys = [key for space in self._spaces or [""] for key in await self._claims.keys(space)]
        for key in keys:
            found = await self._claim(key)
            if isinstance(found, actions.HasClaim):
                claims.append((key, found.claim, found.revision))
        return actions.HasClaims(tuple(claims))

    # the log

    async def _publish(self, request: actions.Publish) -> actions.Answer:
        try:
            ack = await self.client.offer(request.job, request.data, request.message_id, request.after)
        except StaleSequenceError:
            return actions.Refused()
        except NotPublishedError as error:
            return actions.Unanswered(error.detail)
        return actions.Stored(ack.seq, ack.duplicate)

    async def _read(self, request: actions.ReadJob) -> actions.JobRead:
        """Read what there is about one job: message by message, as there are few of most jobs."""
        suffix = job_suffix(*split(request.job))
        subject = self.client.log.cell.subject(suffix)
        newest = await self._message(last_of=subject)
        last = newest.seq if newest is not None else 0
        told: list[actions.Told] = []
        seq = request.since
        while newest is not None and seq <= last:
            if len(told) == FEW:
                async for entries in self.client.log.read(seq, [suffix]):
                    told += [_told(entry.seq, entry.payload) for entry in entries if entry.seq <= last]
                break
            message = newest if seq == last else await self._message(seq=seq, next_of=subject)
            if message is None or message.seq > last:
                break
            seq = message.seq
            told.append(_told(seq, message.payload))
            seq += 1
        return actions.JobRead(tuple(told), last)

    async def _message(self, **which: Any) -> api.Stored | None:
        return await api.message(await self.client.log.connection(5.0), self.client.log.cell.stream, **which)


def _entry(key: str, value: bytes) -> DispatchEntry:
    try:
        return _ENTRIES.decode(value)
    except UNREADABLE as error:
        raise EventLogError(f"{key}: unreadable: {error}") from error


def _claim(value: bytes) -> Claim:
    """Return the claim; one that cannot be read is of nobody, who has no heartbeat: others take over."""
    try:
        return _CLAIMS.decode(value)
    except UNREADABLE:
        return Claim(executor="")


def _told(seq: int, payload: bytes) -> actions.Told:
    found = decode_message(payload)
    if not isinstance(found, CloudEvent):
        return actions.Told(seq, "", None)
    if found.type not in _REPORTS:
        return actions.Told(seq, found.id, None)
    try:
        return actions.Told(seq, found.id, msgspec.json.decode(found.data, type=_REPORTS[found.type]))
    except UNREADABLE:
        return actions.Told(seq, found.id, None)
