"""Projections: what the log makes true now, as key-value buckets for readers in any language.

Written after the commit is acknowledged. Every write names the bucket's sequence that it expects, so a
leader that was replaced cannot overwrite its successor's values; the entries say which commit they are
of (`seq`), so a successor knows from the bucket's last entry what may be missing, and writes it again.
"""

import asyncio
import base64
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

import structlog

from sluice.events.commit import Step

from .errors import EventLogError, LogUnavailableError, StaleSequenceError
from .frames import headers_of, publish_frame
from .hooks import Hooks
from .jetstream import JetStreamLog, read_ack, read_stream
from .stream import ensure_bucket
from .wire import Connection

BATCH = 500
"""Entries written before an acknowledgement is waited for."""

REMEMBERED = 20_000
"""Latest changes that a stand-by keeps, to repair without comparing everything."""

ACK_TIMEOUT_S = 5.0
TOMBSTONE_TTL = "1h"
"""How long a deletion stays visible to readers that were away."""

SEQ_HEADER = "Sluice-Seq"

Change = tuple[str, bytes | None]
"""Key (tokens encoded) and value, a JSON object; None deletes the key."""

log = structlog.get_logger("sluice.log.projection")


class Projection[S](Protocol):
    """What a service shows in one bucket. Pure."""

    bucket: str
    """After the cell: "dispatch" is the bucket `sluice_<cell>_dispatch`."""

    def changes(self, state: S, step: Step) -> Iterable[Change]:
        """Return what *step* has changed; *state* is exactly as of the step."""
        ...

    def everything(self, state: S) -> Iterable[tuple[str, bytes]]:
        """Return all keys and values that there should be."""
        ...


def with_seq(value: bytes, seq: int) -> bytes:
    """Return the JSON object *value* with `"seq": seq` in front."""
    rest = value[1:].lstrip()
    return b'{"seq":%d%s%s' % (seq, b"" if rest.startswith(b"}") else b",", rest)


class Publisher[S](Hooks[S]):
    """Keeps one bucket as the projection says, while this replica leads.

    *confirm*: asks whether this replica still leads, after something unexpected was found.
    """

    def __init__(
        self,
        projection: Projection[S],
        target: JetStreamLog,
        confirm: Callable[[], Awaitable[bool]],
    ) -> None:
        self.projection, self.log, self._confirm = projection, target, confirm
        self.bucket = target.cell.bucket(projection.bucket)
        self.stream = f"KV_{self.bucket}"
        self.prefix = f"$KV.{self.bucket}."
        self.written = 0
        """Entries written since the process began."""
        self._queue: dict[str, tuple[bytes | None, int]] = {}
        self._recent: OrderedDict[str, tuple[bytes | None, int]] = OrderedDict()
        self._floor = 0
        self._last = self._own = 0
        self._instance, self._sent = secrets.token_hex(6), 0
        # A cluster compares message ids with what it has applied, which is behind what is under way: there
        # every entry is answered for.
        self._chained = target.replicas == 1
        self._state: S | None = None
        self._decided = self._committed = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()

    # Hooks

    def rebuilding(self, upto: int, own: int) -> None:  # noqa: ARG002
        self._recent.clear()
        self._queue.clear()
        self._floor = own

    def replayed(self, state: S, step: Step, seq: int) -> None:
        for key, value in self.projection.changes(state, step):
            self._remember(key, value, seq)

    def _remember(self, key: str, value: bytes | None, seq: int) -> None:
        recent = self._recent
        recent[key] = (value, seq)
        recent.move_to_end(key)
        if len(recent) > REMEMBERED:
            _, (_, dropped) = recent.popitem(last=False)
            self._floor = max(self._floor, dropped)

    def decided(self, state: S, step: Step) -> object:
        self._decided += 1
        return tuple(self.projection.changes(state, step)) if step.events else ()

    def committed(self, state: S, steps: Sequence[Step], seq: int, effects: Sequence[object]) -> None:  # noqa: ARG002
        self._committed += len(steps)
        self._own = seq
        queue = self._queue
        for changes in effects:
            for key, value in changes:  # type: ignore[attr-defined]
                # Put last again: the bucket's last entry must be of the latest commit begun.
                queue.pop(key, None)
                queue[key] = (value, seq)
        if queue:
            self._idle.clear()
        self._wake.set()

    def leading(self, state: S, own: int) -> None:
        self._state, self._own = state, own
        self._decided = self._committed = 0
        self._idle.clear()
        self._task = asyncio.create_task(self._run(), name=f"{self.bucket}-projection")

    def following(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._queue.clear()
        self._state = None

    async def drain(self) -> None:
        if self._task is not None:
            await self._idle.wait()

    # writing

    async def _run(self) -> None:
        while True:
            try:
                await self._repair()
                await self._follow()
            except (EventLogError, ConnectionError, TimeoutError) as error:
                log.info("projection not repaired yet", bucket=self.bucket, error=str(error) or "timeout")
                await asyncio.sleep(0.2)
            except Exception:
                # A fault of ours must not leave readers with what is no longer true.
                log.exception("projection failed, comparing everything", bucket=self.bucket)
                self._floor = self._own
                await asyncio.sleep(1.0)

    async def _follow(self) -> None:
        """Write what is committed, for ever."""
        while True:
            self._wake.clear()
            if self._queue:
                await self._flush()
            else:
                self._idle.set()
                await self._wake.wait()

    async def _flush(self) -> None:
        """Write what is queued, latest value of each key; try until it is there."""
        batch, self._queue = self._queue, {}
        items = list(batch.items())
        done = 0
        while done < len(items):
            part = items[done : done + BATCH]
            try:
                await self._write(await self.log.connection(), part)
                done += len(part)
            except StaleSequenceError:
                await self._resynchronize()
            except (EventLogError, ConnectionError, TimeoutError) as error:
                log.info("projection not written", bucket=self.bucket, error=str(error) or "timeout")
                await asyncio.sleep(0.1)
                await self._resynchronize()

    async def _write(
        self, connection: Connection, part: Sequence[tuple[str, tuple[bytes | None, int]]]
    ) -> None:
        """Write entries in one go; the acknowledgement of the last one is that of all.

        Each names its predecessor by message id. Sequences would not do: after an entry of another writer
        as many of these as it wrote are refused, and those behind find the sequence that they expect.

        Raises:
            StaleSequenceError: the bucket is not as this writer left it; some may have been written.
        """
        expected, frames, replies = self._last, [], []
        for index, (key, (value, seq)) in enumerate(part):
            if index == 0 or not self._chained:
                headers = {"Nats-Expected-Last-Sequence": str(expected + index)}
            else:
                headers = {"Nats-Expected-Last-Msg-Id": f"{self._instance}-{self._sent}"}
            self._sent += 1
            headers["Nats-Msg-Id"] = f"{self._instance}-{self._sent}"
            if value is None:
                headers |= {"KV-Operation": "DEL", "Nats-TTL": TOMBSTONE_TTL, SEQ_HEADER: str(seq)}
            payload = b"" if value is None else with_seq(value, seq)
            reply = ""
            if index == len(part) - 1 or not self._chained:
                reply, future = connection.expect(self.prefix)
                replies.append((reply, future, expected + index + 1))
            frames.append(publish_frame(self.prefix + key, payload, reply, headers))
        connection.write(b"".join(frames))
        for reply, future, wanted in replies:
            frame = await connection.answer(reply, future, ACK_TIMEOUT_S)
            ack = read_ack(self.prefix, wanted - 1, frame.payload)
            if ack.seq != wanted:
                raise StaleSequenceError(self.prefix, wanted, ack.seq)
        self._last = expected + len(part)
        self.written += len(part)

    async def _resynchronize(self) -> None:
        """Find out where the bucket stands, and only then whether this replica still leads.

        In this order: whoever leads after the answer writes behind what was found, so that what this
        replica then writes with the found sequence is refused.
        """
        while True:
            try:
                self._last, confirmed = await self._stand()
                if not await self._overtaken(confirmed) and await self._confirm():
                    return
            except (EventLogError, ConnectionError, TimeoutError) as error:
                log.info("bucket not available", bucket=self.bucket, error=str(error) or "timeout")
            await asyncio.sleep(0.1)

    async def _stand(self) -> tuple[int, int]:
        """Return the bucket's last sequence, and the commit of its last entry (0 if that is unknown)."""
        connection = await self.log.connection()
        await ensure_bucket(connection, self.bucket, self.log.replicas)
        answer = await connection.ask(f"$JS.API.STREAM.INFO.{self.stream}")
        if "error" in answer:
            raise LogUnavailableError(f"{self.stream}: {answer['error'].get('description')}")
        last = int(answer["state"]["last_seq"])
        if not last:
            return 0, 0
        entry = await connection.ask(f"$JS.API.STREAM.MSG.GET.{self.stream}", {"seq": last})
        return last, _seq_of(entry.get("message") or {})

    async def _overtaken(self, confirmed: int) -> bool:
        """Tell whether the bucket shows a commit of a later leader, whatever the lease says."""
        # A bucket that is older than the log may show more than the log has, and needs to be written anew.
        return self._own < confirmed <= await self.log.end()

    async def _repair(self) -> None:
        """Bring the bucket up to the chain's last commit, after whoever wrote it before."""
        self._last, confirmed = await self._stand()
        if await self._overtaken(confirmed):
            raise LogUnavailableError(
                f"{self.bucket} shows commit {confirmed}, {self._own} is the last known"
            )
        if self._last and self._floor < confirmed <= self._own:
            # Entries are written in the order of commits: only those of the last one may be incomplete.
            wanted = {key: entry for key, entry in self._recent.items() if entry[1] >= confirmed}
            how = "recent"
        else:
            wanted = await self._differences(await self._everything())
            how = "all"
        self._recent.clear()
        # What was committed meanwhile is newer.
        for key, entry in self._queue.items():
            wanted.pop(key, None)
            wanted[key] = entry
        self._queue = wanted
        log.info("projection checked", bucket=self.bucket, by=how, confirmed=confirmed, writes=len(wanted))

    async def _everything(self) -> dict[str, bytes]:
        """Return what there should be; waits until all that it rests on is in the log."""
        assert self._state is not None
        everything, decided = dict(self.projection.everything(self._state)), self._decided
        while self._committed < decided:
            self._wake.clear()
            await self._wake.wait()
        return everything

    async def _differences(self, current: dict[str, bytes]) -> dict[str, tuple[bytes | None, int]]:
        """Compare every key of the bucket with what should be there."""
        found: dict[str, bytes] = {}
        async for entries in read_stream(self.log, self.stream, self.prefix, self._last):
            for entry in entries:
                if entry.header and "KV-Operation" in headers_of(entry.header):
                    found.pop(entry.suffix, None)
                else:
                    found[entry.suffix] = entry.payload
        wanted: dict[str, tuple[bytes | None, int]] = {
            key: (None, self._own) for key in sorted(found) if key not in current
        }
        for key, value in current.items():
            if key not in found or not _same(found[key], value):
                wanted[key] = (value, self._own)
        return wanted


def _same(found: bytes, value: bytes) -> bool:
    """Tell whether an entry holds *value*, of whichever commit."""
    if not found.startswith(b'{"seq":'):
        return False
    digits = found[7:]
    end = 0
    while end < len(digits) and digits[end] in b"0123456789":
        end += 1
    return with_seq(value, int(digits[:end] or b"0")) == found


def _seq_of(message: dict[str, Any]) -> int:
    """Return which commit an entry is of, 0 if it does not say."""
    if header := message.get("hdrs"):
        fields = headers_of(base64.b64decode(header))
        if SEQ_HEADER in fields:
            return int(fields[SEQ_HEADER])
    data = base64.b64decode(message.get("data") or "")
    if data.startswith(b'{"seq":'):
        digits = data[7:27].split(b",")[0].split(b"}")[0]
        return int(digits) if digits.isdigit() else 0
    return 0
