"""Presence: records in the log that somebody has come or gone (law 7), on change only.

Agents and controllers of checks keep a heartbeat with a time to live in the bucket
`sluice_<cell>_heartbeats`, key `<kind>.<name>`. The leader of the service that owns the kind compares the
keys with what the log says, and publishes the difference until the log agrees.

Anybody may put anything there. A key that is no name is passed over. Who is not known has come only if the
value is a heartbeat; who is expected is lost only if the key itself is asked for and is not there.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import structlog

from sluice.core.naming import is_name
from sluice.events.codec import encode_message
from sluice.events.job import Away, JobEvent, Lost, OnLoss, Seen
from sluice.log.errors import EventLogError, NoStreamError
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.streams import ensure_bucket
from sluice.protocol.dispatch import key_text, key_token
from sluice.protocol.executor_kinds import kinds_of
from sluice.protocol.heartbeats import heartbeat_of
from sluice.protocol.subjects import presence_suffix, token

from .leader_task import LeaderTask

__all__ = ["Known", "PresenceWatcher"]

REPEAT_S = 5.0
"""A record that the log did not take in for so long is published again."""

FIRST_BEAT_S = 5.0
"""So long is waited for the heartbeat of somebody who is not known as there: as if it had put one, of the
usual time to live, when it was first expected."""

NEW_BUCKET_S = 10.0
"""So long nobody is missed in a bucket that was made in the place of one that was lost, or deleted: they are
there, and some of them still wait for the answer to a heartbeat that they sent to the old one."""

READ_AT_ONCE = 20
"""Heartbeats of unknown names that are read each time; others wait for the next time."""

log = structlog.get_logger("sluice.log.presence")


class Known[S](Protocol):
    """What the log says of those that send heartbeats."""

    def present(self, state: S, name: str) -> bool:
        """Tell whether *name* is there."""

    def expected(self, state: S) -> Iterable[str]:
        """Return those that must be said to be lost when they have no heartbeat."""

    def away(self, state: S, name: str) -> bool:
        """Tell whether the log says that it is away, and keeps what it has."""

    def on_loss(self, state: S, name: str) -> OnLoss | None:
        """Return what it has asked for, should it have no heartbeat; None: nothing of its own."""


class Absence(NamedTuple):
    """Somebody who is expected and has no heartbeat; times are monotonic, in seconds."""

    since: float
    """When that was first seen."""
    due: float
    """When it counts as lost, unless it has asked for something else."""

    def follows(self, wish: OnLoss | None, now: float) -> str:
        """Return what it is to be called now: "" (nothing new), "Away" or "Lost"."""
        if wish is None:
            return "Lost" if now >= self.due else ""
        if wish.policy == "Requeue" and now >= self.since + wish.after_s:
            return "Lost"
        return "Away" if now >= self.due else ""


class PresenceWatcher[S](LeaderTask[S]):
    """Watches the heartbeats of one *kind* ("agent") while this replica leads.

    They are looked at every *poll_s* seconds. An expired one must stay away for *lost_after_s* more, which
    covers those that only have to find a restarted server again. Who is expected and not known as there, such
    as an agent that takes a job before its first heartbeat, has *FIRST_BEAT_S* besides. Who has asked for
    something else with its claims (`OnLoss`) is said to be away then, and lost when it has asked for that.
    """

    def __init__(
        self, kind: str, source: str, known: Known[S], *, poll_s: float, lost_after_s: float
    ) -> None:
        self.kind, self.source, self.known = kind, source, known
        self.poll_s, self.lost_after_s = poll_s, lost_after_s
        super().__init__()
        self._absent: dict[str, Absence] = {}
        """Who is expected and has no heartbeat."""
        self._created, self._all_back = "", 0.0
        self._told: dict[tuple[str, str], float] = {}
        self._rubbish: dict[str, float] = {}
        """Names whose value is no heartbeat -> when that was read."""

    async def work(self) -> None:
        self._absent, self._told, self._rubbish = {}, {}, {}
        self._created, self._all_back = "", 0.0
        while True:
            try:
                await self._compare(await self._heartbeats())
            except (EventLogError, ConnectionError, TimeoutError) as error:
                # Nobody is lost because we cannot see: the clock starts again when we can.
                self._absent.clear()
                log.info("heartbeats not seen", error=str(error) or type(error).__name__)
            await asyncio.sleep(self.poll_s)

    async def _heartbeats(self) -> dict[str, int]:
        """Return name -> sequence of its heartbeat."""
        assert self.target is not None
        bucket = self.target.cell.bucket("heartbeats")
        connection = await self.target.connection()
        prefix = f"$KV.{bucket}.{self.kind}."
        try:
            found = await api.info(connection, f"KV_{bucket}", subjects=f"{prefix}>")
        except NoStreamError:
            await ensure_bucket(connection, bucket, self.target.replicas, memory=True)
            found = await api.info(connection, f"KV_{bucket}", subjects=f"{prefix}>")
        self.looked(found.get("created", ""), found.get("ts", ""), time.monotonic())
        subjects: Mapping[str, Any] = found["state"].get("subjects") or {}
        return names_of(subjects, prefix)

    def looked(self, created: str, at: str, now: float) -> None:
        """Take note of when the bucket was made; *at*: what time the server has now."""
        if created == self._created:
            return
        # Of one that was there before this replica led, the server tells the age; of others we know it.
        age = age_s(created, at) if not self._created else 0.0
        self._created, self._all_back = created, now + NEW_BUCKET_S - age

    async def _compare(self, there: Mapping[str, int]) -> None:
        state, now = self._state, time.monotonic()
        if state is None:
            return
        found = self.compared(state, there, now)
        for name in self.to_read([name for name, what in found if what == "Seen"], now):
            value = await self._value(name)
            if heartbeat_of(name, value) is not None:
                await self._tell(name, "Seen", now, kinds_of(value))
            else:
                self._rubbish[name] = now
        for name, what in found:
            # What the server lists at once is bounded, and anybody may make the list long.
            if what != "Seen" and await self._value(name) is None:
                await self._tell(name, what, now)

    def to_read(self, came: Collection[str], now: float) -> list[str]:
        """Return whose heartbeats are to be read now: those never read first, rubbish seldom."""
        self._rubbish = {name: at for name, at in self._rubbish.items() if name in came}
        due = [name for name in came if now - self._rubbish.get(name, -REPEAT_S) >= REPEAT_S]
        return sorted(due, key=lambda name: self._rubbish.get(name, 0.0))[:READ_AT_ONCE]

    async def _value(self, name: str) -> bytes | None:
        """Return what stands under a name's key, None if nothing does."""
        assert self.target is not None
        bucket = self.target.cell.bucket("heartbeats")
        key = f"$KV.{bucket}.{self.kind}.{key_token(name)}"
        try:
            found = await api.message(await self.target.connection(), f"KV_{bucket}", last_of=key)
        except NoStreamError:
            return None
        return None if found is None or not found.payload else found.payload

    def compared(self, state: S, there: Collection[str], now: float) -> list[tuple[str, str]]:
        """Return who came ("Seen"), is "Away" or gone ("Lost"), by heartbeats of *now* (monotonic, s)."""
        known = self.known
        absent = [name for name in known.expected(state) if name not in there]
        if now < self._all_back:
            absent = []
        # Of who is back, expected no more or said to be lost nothing is left: the next time begins anew.
        self._absent = {
            name: self._absent.get(name) or Absence(now, now + self._grace_s(state, name)) for name in absent
        }
        came = [name for name in there if not known.present(state, name) or known.away(state, name)]
        found = [(name, "Seen") for name in came]
        for name in absent:
            what = self._absent[name].follows(known.on_loss(state, name), now)
            if what == "Lost":
                del self._absent[name]
            if what == "Lost" or (what == "Away" and not known.away(state, name)):
                found.append((name, what))
        return found

    def _grace_s(self, state: S, name: str) -> float:
        return self.lost_after_s + (0.0 if self.known.present(state, name) else FIRST_BEAT_S)

    async def _tell(self, name: str, what: str, now: float, kinds: Sequence[str] = ()) -> None:
        assert self.target is not None
        if now - self._told.get((name, what), -REPEAT_S) < REPEAT_S:
            return
        for other in ("Seen", "Away", "Lost"):
            if other != what:
                self._told.pop((name, other), None)
        at = time.time_ns() // 1000
        message_id = f"{what}-{self.kind}-{token(name)}-{at}"
        payload = encode_message(
            message_id=message_id,
            source=self.source,
            event_type=what,
            subject=name,
            at=at,
            data=self._data(name, what, kinds),
        )
        log.info("presence", kind=self.kind, name=name, presence=what)
        await self.target.append(presence_suffix(self.kind, name), payload, msg_id=message_id)
        self._told[(name, what)] = now

    def _data(self, name: str, what: str, kinds: Sequence[str]) -> JobEvent:
        if what != "Away":
            return Seen(kinds=list(kinds)) if what == "Seen" else Lost()
        wish = None if self._state is None else self.known.on_loss(self._state, name)
        return Away(message=what_follows(wish), on_loss=wish)


def what_follows(wish: OnLoss | None) -> str:
    """Return, for people, what becomes of the jobs of somebody who is away.

    >>> what_follows(OnLoss(policy="Wait"))
    'no heartbeat; its jobs stay with it until it is back'
    >>> what_follows(OnLoss(after_s=60))
    'no heartbeat; its jobs are queued again when it was missing for 60 s'
    """
    if wish is None or wish.policy == "Wait":
        return "no heartbeat; its jobs stay with it until it is back"
    return f"no heartbeat; its jobs are queued again when it was missing for {wish.after_s:g} s"


def age_s(created: str, at: str) -> float:
    """Return the seconds between two times of the server; 0 if it does not tell.

    >>> age_s("2026-11-26T08:00:00.123456789Z", "2026-11-26T08:00:02.123456789Z"), age_s("", "")
    (2.0, 0.0)
    """
    try:
        return max(0.0, (datetime.fromisoformat(at) - datetime.fromisoformat(created)).total_seconds())
    except ValueError:
        return 0.0


def names_of(keys: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the names in the keys under a prefix, but of those that `key_token` does not make.

    >>> names_of({"agent.a=2Eb": 1, "agent.a.b": 2, "agent.\ufffd": 3}, "agent.")
    {'a.b': 1}
    """
    names = {key_text(key.removeprefix(prefix)): (key, count) for key, count in keys.items()}
    return {
        name: count
        for name, (key, count) in names.items()
        if is_name(name) and prefix + key_token(name) == key
    }
