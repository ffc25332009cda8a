"""Claims: which executor has taken which attempt. One wins, because a key can be created once only."""

from typing import Literal, NamedTuple

import msgspec

from sluice.events.base import JobKey
from sluice.events.dispatch import Claim, DispatchEntry, claim_key, job_of_key
from sluice.log.errors import StaleSequenceError
from sluice.log.jetstream import JetStreamLog

from .bucket import Bucket

KEEP_DONE_S = 600
"""A claim stays so long after its attempt, for executors that hear late of the attempt's end."""

_CLAIMS = msgspec.json.Decoder(Claim)


class Held(NamedTuple):
    """A claim of an earlier process of this executor."""

    key: str
    job: JobKey
    uid: str
    attempt: int

    @property
    def report(self) -> str:
        """The id of the report on how the attempt ended: the one that the earlier process would have used."""
        return f"{self.uid}-{self.attempt}-end"


class Claims:
    """The claims of one executor's process."""

    def __init__(self, target: JetStreamLog, executor: str, instance: str) -> None:
        self.bucket = Bucket(target, "claims")
        self.executor, self.instance = executor, instance

    async def ensure(self) -> None:
        await self.bucket.ensure()

    def key(self, entry: DispatchEntry) -> str:
        return claim_key(entry.job, entry.uid, entry.attempt)

    def _value(self, state: Literal["Active", "Done"] = "Active") -> bytes:
        return msgspec.json.encode(Claim(executor=self.executor, instance=self.instance, state=state))

    async def take(self, entry: DispatchEntry, revision: int = 0) -> int | None:
        """Claim the attempt; return the claim's revision, None if another executor has it (or had it).

        *revision*: of the claim to take over, 0 for an attempt that nobody has.
        """
        key = self.key(entry)
        try:
            return await self.bucket.put(key, self._value(), revision=revision)
        except StaleSequenceError:
            # It may be this process's own: stored by a request that was not answered.
            found = await self.of(entry)
            if found is None:
                return None
            claim, stored = found
            return stored if claim.instance == self.instance and claim.state == "Active" else None

    async def of(self, entry: DispatchEntry) -> tuple[Claim, int] | None:
        """Return who has the attempt, and the claim's revision."""
        found = await self.bucket.get(self.key(entry))
        return None if found is None else (_CLAIMS.decode(found.value), found.revision)

    async def mine(self, entry: DispatchEntry) -> bool:
        found = await self.of(entry)
        return found is not None and found[0].instance == self.instance

    async def done(self, key: str, revision: int | None = None) -> None:
        """Say that the attempt is over; does nothing if the claim is not of *revision* any more."""
        try:
            await self.bucket.put(key, self._value("Done"), revision=revision, ttl_s=KEEP_DONE_S)
        except StaleSequenceError:
            return

    async def of_earlier_lives(self) -> list[Held]:
        """Return the active claims of other processes under this executor's name."""
        held = []
        for key in await self.bucket.keys():
            found = await self.bucket.get(key)
            if found is None:
                continue
            claim = _CLAIMS.decode(found.value)
            if (
                claim.executor == self.executor
                and claim.instance != self.instance
                and claim.state == "Active"
            ):
                namespace, name, uid, attempt = key.split(".")
                held.append(Held(key, job_of_key(f"{namespace}.{name}"), uid, int(attempt)))
        return held
