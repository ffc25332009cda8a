"""How long the cell took to be well again after each fault, and whether that was soon enough.

What "well again" means stands with each fault (`HEALED`). What is followed by other faults heals more slowly;
so the first of each kind with a limit is watched alone, and only that one's time is judged. Time for which
a process of the cell was ready to run and had no processor does not count: it is a busy machine's.
"""

import asyncio
import base64
import contextlib
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import JetStreamLog, read_stream
from sluice.log.nats.kv import Bucket
from sluice.log.nats.objects import ObjectBucket
from sluice.log.nats.streams import Standing, look_at
from sluice.protocol.dispatch import Claim, DispatchEntry, dispatch_key, job_of_key
from tests.support.system import System

PATIENCE_S = 120.0
"""After so long it will not come any more."""
POLL_S = 0.04
SERVICES = 4
"""With a leader, and so with a lease."""
MARGIN_S = 1.0
"""For looking, and for requests that were under way."""

LIMITS_S: Mapping[str, float] = {
    "lose dispatch": 2.0,
    "lose checks": 2.0,
    "lose claims": 10.0,
    "lose heartbeats": 2.0,
    "lose leases": 2.0,
}
"""Fault -> time until it has healed, as docs/operations.md promises it."""

HEALED: Mapping[str, str] = {
    "kill leader": "another replica leads",
    "kill one": "a leader and a stand-by are there",
    "kill all": "a leader and a stand-by are there",
    "kill leader and server": "another replica leads",
    "kill server": "the scheduler decides again",
    "pause server": "the scheduler decides again",
    "kill api": "a query is answered",
    "kill agent": "it is back, and has settled what it had begun",
    "kill bridge": "it is back, and has settled what it had begun",
    "kill agent for long": "the log says it is lost: its jobs queue again",
    "kill agent for long and lose claims": "the log says it is lost: its jobs queue again",
    "kill bridge for long": "the log says it is lost: its jobs queue again",
    "kill bridge for long and lose claims": "the log says it is lost: its jobs queue again",
    "kill controller": "it beats again",
    "kill controller for long": "the log says it is lost",
    "forget snapshots": "a leader and a stand-by are there",
    "lose claims": "who has an attempt has its claim again",
    "lose dispatch": "the bucket is whole again",
    "lose checks": "the bucket is whole again",
    "lose leases": "every service has a lease",
    "lose heartbeats": "everybody beats again",
    "lose snapshots": "every service has a snapshot",
    "pause leader": "another replica leads",
    "two leaders": "one of them was fenced",
}

Sign = Callable[[], Awaitable[bool | None]]
"""Tells whether it has healed; None: nobody will know any more. May raise `UNAVAILABLE`."""
UNAVAILABLE = (EventLogError, ConnectionError, TimeoutError)
"""What a server that is away leads to."""

_CLAIMS = msgspec.json.Decoder(Claim)
_ENTRIES = msgspec.json.Decoder(DispatchEntry)


def waited_s(pid: int) -> float:
    """Return for how long the threads of a process were ready to run and did not."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(path.read_text().split()[1])
    return total / 1e9


@dataclass
class Healing:
    """Watches and notes. *log*: what it looks with."""

    system: System
    log: JetStreamLog
    took_s: dict[str, list[float]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _watching: dict[asyncio.Task[float], str] = field(default_factory=dict)

    def note(self, fault: str, took_s: float) -> None:
        self.took_s.setdefault(fault, []).append(took_s)

    def watch(self, fault: str, sign: Sign, began: float | None = None) -> "asyncio.Task[float]":
        """Note how long it takes from *began* (now) until *sign*, beside what else goes on."""
        since = time.monotonic() if began is None else began
        task = asyncio.create_task(self._until(fault, sign, since), name=f"heal: {fault}")
        self._watching[task] = fault
        task.add_done_callback(lambda done: self._watching.pop(done))
        return task

    async def _until(self, fault: str, sign: Sign, began: float) -> float:
        while not (healed := await self._says(sign)):
            if healed is None:
                return 0.0
            if time.monotonic() - began > PATIENCE_S:
                self.wrong.append(f"{fault}: not healed within {PATIENCE_S:.0f} s ({HEALED[fault]})")
                break
            await asyncio.sleep(POLL_S)
        took_s = time.monotonic() - began
        self.note(fault, took_s)
        return took_s

    async def _says(self, sign: Sign) -> bool | None:
        try:
            async with asyncio.timeout(5.0):
                return await sign()
        except UNAVAILABLE:
            return False

    def is_due(self, fault: str) -> bool:
        """Tell whether the next fault of this kind is to be watched alone."""
        return fault in LIMITS_S and fault not in self.took_s and fault not in self._watching.values()

    def waits_s(self) -> dict[int, float]:
        """Return for how long the processes of the cell were ready to run and did not, by pid."""
        pids = [service.pid for service in self.system.live()]
        return {pid: waited_s(pid) for pid in [*pids, self.system.server.pid]}

    async def judge(self, fault: str, before: Mapping[int, float]) -> None:
        """Wait until a fault that nothing else disturbs has healed; it must within its limit.

        *before*: `waits_s` before the fault.
        """
        if tasks := [task for task, what in self._watching.items() if what == fault]:
            await asyncio.wait(tasks)
        took_s = max(self.took_s.get(fault, [0.0]))
        self.hold_against(f"{fault}: healed", took_s, LIMITS_S[fault] + MARGIN_S, before)

    def hold_against(self, what: str, took_s: float, limit_s: float, before: Mapping[int, float]) -> None:
        """Note that it took longer than it may, but for the time without a processor since *before*.

        Twice the longest of a process, since one waits for another.
        """
        stalled_s = max(max(0.0, waited_s(pid) - had) for pid, had in before.items())
        if took_s > limit_s + 2 * stalled_s:
            text = f"{what} in {took_s:.2f} s, wanted {limit_s:.0f} s"
            self.wrong.append(f"{text} (and processes waited up to {stalled_s:.2f} s for a processor)")

    async def asked[T](self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer, once there is one."""
        while True:
            with contextlib.suppress(*UNAVAILABLE):
                async with asyncio.timeout(5.0):
                    return await ask()
            await asyncio.sleep(POLL_S)

    async def settled(self, *, but: tuple[str, ...] = ()) -> None:
        """Wait until all that is watched has healed, but for faults that begin so."""
        tasks = [task for task, fault in self._watching.items() if not fault.startswith(but or ("-",))]
        if tasks:
            await asyncio.wait(tasks)

    def stop(self) -> None:
        """Watch no longer."""
        for task in list(self._watching):
            task.cancel()

    def table(self, done: Mapping[str, int]) -> list[str]:
        """Return a line for each kind of fault."""
        wide = max(map(len, done), default=5)
        lines = [f"{'fault':{wide}}  times  median  longest  healed when"]
        for fault, times in sorted(done.items()):
            took = self.took_s.get(fault)
            median, longest = (
                (f"{statistics.median(took):.2f} s", f"{max(took):.2f} s") if took else ("-", "-")
            )
            lines.append(f"{fault:{wide}}  {times:5}  {median:>6}  {longest:>7}  {HEALED.get(fault, '')}")
        return lines

    # signs

    def bucket(self, what: str) -> Bucket:
        return Bucket(self.log, what)

    async def standing(self, what: str) -> Standing | None:
        return await look_at(await self.log.connection(), self.log.cell.bucket(what))

    def whole(self, what: str, before: Standing | None) -> Sign:
        """The bucket is another one than *before*, and everything is in it."""

        async def sign() -> bool:
            now = await self.standing(what)
            return now is not None and now.whole and (before is None or now.created != before.created)

        return sign

    async def active_claims(self) -> dict[str, Claim]:
        """Return the claims on attempts that are not done, by key."""
        standing = await self.standing("claims")
        if standing is None or not standing.last:
            return {}
        bucket, found = self.bucket("claims"), {}
        async for entries in read_stream(self.log, bucket.stream, bucket.prefix, standing.last):
            for entry in entries:
                if entry.payload and (claim := _CLAIMS.decode(entry.payload)).state == "Active":
                    found[entry.suffix] = claim
        return found

    def claimed(self, before: Iterable[str]) -> Sign:
        """Each of these attempts has a claim, or is not to run any more."""
        left = list(before)

        async def sign() -> bool:
            for key in list(left):
                namespace, name, uid, attempt = key.split(".")
                if await self.bucket("claims").get(key) is None:
                    job = job_of_key(f"{namespace}.{name}")
                    found = await self.bucket("dispatch").certainly(dispatch_key(job))
                    entry = _ENTRIES.decode(found.value) if found is not None else None
                    if entry is not None and (entry.state, entry.uid, entry.attempt) == (
                        "Running",
                        uid,
                        int(attempt),
                    ):
                        return False
                left.remove(key)
            return True

        return sign

    async def beat(self, key: str) -> int:
        """Return the process that a heartbeat is of, 0 if there is none."""
        entry = await self.bucket("heartbeats").get(key)
        return 0 if entry is None else int(msgspec.json.decode(entry.value).get("pid", 0))

    async def settled_claims(self, claims: dict[str, Claim]) -> bool:
        """Tell whether none of these is what it was; forgets those that are not."""
        for key, claim in list(claims.items()):
            entry = await self.bucket("claims").get(key)
            if entry is not None and _CLAIMS.decode(entry.value) == claim:
                return False
            del claims[key]
        return True

    def beats(self, keys: list[str], excused: Callable[[str], bool]) -> Sign:
        """All these heartbeats are there, but for those of processes that were killed meanwhile."""

        async def sign() -> bool:
            there = set(await self.bucket("heartbeats").keys())
            return all(key in there or excused(key) for key in keys)

        return sign

    def leases(self) -> Sign:
        async def sign() -> bool:
            return len(await self.bucket("leases").keys()) >= SERVICES

        return sign

    async def snapshots(self) -> set[str]:
        """Return the writers that have a snapshot."""
        return {name.partition("-")[0] for name in await ObjectBucket(self.log).listing()}

    def snapshot_each(self, before: set[str]) -> Sign:
        async def sign() -> bool:
            return await self.snapshots() >= before

        return sign

    async def last(self, suffix: str) -> tuple[int, bytes]:
        """Return sequence and payload of the last message on a subject, (0, b"") if there is none."""
        connection = await self.log.connection()
        body = {"last_by_subj": self.log.cell.subject(suffix)}
        answer = await connection.ask(f"$JS.API.STREAM.MSG.GET.{self.log.cell.stream}", body)
        if answer.get("error"):
            return 0, b""
        return int(answer["message"]["seq"]), base64.b64decode(answer["message"].get("data", ""))

    def decides(self, writer: str) -> Sign:
        """The service has committed something since this was asked first."""
        first: list[int] = []

        async def sign() -> bool:
            seq, _ = await self.last(writer)
            if not first and seq:
                first.append(seq)
            return bool(first) and seq > first[0]

        return sign
