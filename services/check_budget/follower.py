"""Follows the log, so that the ledger knows what was consumed; saves and finds what was folded."""

import asyncio
import zlib
from collections.abc import Callable

import msgspec
import structlog

from sluice.api.check_parameters import Budget
from sluice.core.budgets import budgets, consumption
from sluice.events.base import Micros
from sluice.events.codec import CommitDecodeError, decode_commit
from sluice.log.contract import Entry
from sluice.log.errors import EventLogError, LogUnavailableError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.objects import ObjectBucket
from sluice.log.runtime.snapshot import Snapshots
from sluice.log.runtime.snapshot_info import SnapshotInfo

from .ledger import Account, Ledger

WRITER = "check-budget"
"""Name of the snapshots; the service itself is no decider."""
READS = ("config", "slices", "variants", "scheduler")
SLICE = 64
"""Entries folded before others get their turn."""

log = structlog.get_logger("sluice.check.budget")


class _Snapshot(msgspec.Struct, frozen=True, array_like=True):
    budgets: list[tuple[int, bytes]]
    consumption: bytes


VERSION = zlib.crc32(repr(_Snapshot.__annotations__).encode(), consumption.VERSION)
_decoder = msgspec.msgpack.Decoder(_Snapshot)


def dump(ledger: Ledger) -> bytes:
    """Return budgets and consumption as bytes for `load`; requests are asked again after a start."""
    found = [(one.generation, msgspec.json.encode(one.budget)) for one in ledger.accounts.values()]
    return msgspec.msgpack.encode(_Snapshot(found, consumption.dump(ledger.consumption)))


def load(data: bytes, ledger: Ledger) -> None:
    """Put what `dump` wrote into an empty ledger.

    Raises:
        msgspec.DecodeError: the bytes are damaged, or of another version.
    """
    found = _decoder.decode(data)
    ledger.consumption = consumption.load(found.consumption)
    for generation, raw in found.budgets:
        budget = msgspec.json.decode(raw, type=Budget)
        ledger.accounts[budget.metadata.name] = Account(budget, budgets.terms(budget.spec), generation)


class LedgerFollower:
    """Keeps a ledger up to date. `ready` is set once the log was caught up with."""

    def __init__(
        self, source: JetStreamLog, ledger: Ledger, changed: Callable[[], None], every: int = 100_000
    ) -> None:
        """*changed*: called when something was folded that may change what was judged. *every*: entries."""
        self.ledger = ledger
        self.ready = asyncio.Event()
        self._log, self._changed, self._every = source, changed, every
        self._snapshots = Snapshots(ObjectBucket(source))
        self._seq: int = 0
        self._at: Micros = 0
        self._saved = 0
        self._saving: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Follow for ever; a log that cannot be followed ends the process with its reason."""
        end = await self._end()

        def take(info: SnapshotInfo, data: bytes) -> int:
            load(data, self.ledger)
            return info.upto

        found = await self._snapshots.newest_as(WRITER, VERSION, end, take) if self._every and end else None
        self._seq = self._saved = found or 0
        wake = asyncio.Event()
        tail = self._log.tail(self._seq + 1, READS, wake.set)
        try:
            while True:
                wake.clear()
                entries = tail.take()
                for begin in range(0, len(entries), SLICE):
                    for entry in entries[begin : begin + SLICE]:
                        self._fold(entry)
                    await asyncio.sleep(0)
                if not self.ready.is_set() and tail.reached(end):
                    log.info("follower are up to date", seq=end, budgets=len(self.ledger.accounts))
                    self.ready.set()
                    self._changed()
                if not entries:
                    await wake.wait()
                elif self._every and self._seq - self._saved >= self._every:
                    self._save()
        finally:
            await tail.close()

    async def _end(self) -> int:
        """Return the log's end; waits for a cell whose stream is not made yet."""
        while True:
            try:
                return await self._log.end()
            except LogUnavailableError as error:
                log.info("log not there yet", error=str(error))
                await asyncio.sleep(0.2)

    def _fold(self, entry: Entry) -> None:
        seq, changed = entry.seq, False
        try:
            for step in decode_commit(entry.payload, entry.suffix, seq).steps:
                for event in step.events:
                    changed = self.ledger.apply(event, seq, step.at) or changed
        except CommitDecodeError as error:
            # Of a newer version: what it says of consumption is not known here.
            log.error("commit not readable", seq=seq, error=str(error))
        self._seq, self._at = seq, entry.at
        if changed and self.ready.is_set():
            self._changed()

    def _save(self) -> None:
        if self._saving is None or self._saving.done():
            self._saved = self._seq
            self._saving = asyncio.create_task(self._store(dump(self.ledger), self._seq, self._at))

    async def _store(self, data: bytes, seq: int, at: Micros) -> None:
        try:
            await self._snapshots.store(WRITER, VERSION, data, seq, at, 0)
        except (EventLogError, OSError, TimeoutError) as error:
            log.warning("snapshot not stored", seq=seq, error=str(error) or type(error).__name__)
