"""Claims that are none are taken away.

Executors write claims, and mend those of what they run. What is spoiled after its attempt has ended is
nobody's: without a time to live, and without anybody who reads it, it would stay for ever. A claim that is
gone is no loss, whoever's it was: whose an attempt is, the log says.
"""

import asyncio

import msgspec
import structlog

from sluice.api.errors import UNREADABLE
from sluice.core.slices.state import State
from sluice.log.contract import Entry
from sluice.log.errors import EventLogError, StreamMismatchError
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.jetstream import read_stream
from sluice.log.nats.kv import Bucket, is_deletion
from sluice.log.runtime.leader_task import LeaderTask
from sluice.protocol.dispatch import Claim, is_claim_key

SWEEP_S = 60.0

log = structlog.get_logger("sluice.slices.claims")

_CLAIMS = msgspec.json.Decoder(Claim)


class SpoiledClaims(LeaderTask[State]):
    """Looks every *sweep_s* at the claims written since it last did."""

    def __init__(self, sweep_s: float = SWEEP_S) -> None:
        super().__init__()
        self.sweep_s = sweep_s
        self._created, self._upto = "", 0

    async def work(self) -> None:
        self._created, self._upto = "", 0
        assert self.target is not None
        bucket = Bucket(self.target, "claims")
        while True:
            try:
                # So that executors in any language find it; who claims makes one that is lost meanwhile.
                await bucket.ensure()
                await self._sweep(bucket)
            except StreamMismatchError as error:
                log.error("claims bucket unfit: delete it, and it is made anew", error=str(error))
            except (EventLogError, ConnectionError, TimeoutError) as error:
                log.info("claims not seen", error=str(error) or type(error).__name__)
            await asyncio.sleep(self.sweep_s)

    async def _sweep(self, bucket: Bucket) -> None:
        assert self.target is not None
        connection = await self.target.connection()
        found = await api.info(connection, bucket.stream)
        created, end = found.get("created", ""), int(found["state"]["last_seq"])
        since = self._upto if created == self._created else 0
        if end > since:
            async for entries in read_stream(self.target, bucket.stream, bucket.prefix, end, start=since + 1):
                for entry in entries:
                    if is_spoiled(entry):
                        log.warning("spoiled claim taken away", key=entry.suffix[:200])
                        await api.purge(
                            connection, bucket.stream, bucket.prefix + entry.suffix, upto=entry.seq
                        )
        self._created, self._upto = created, end


def is_spoiled(entry: Entry) -> bool:
    """Tell whether what stands under a key is no claim."""
    if is_deletion(entry.header):
        return False
    try:
        claim = _CLAIMS.decode(entry.payload)
    except UNREADABLE:
        return True
    return not claim.executor or not is_claim_key(entry.suffix)
