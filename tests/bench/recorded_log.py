"""The log of `recorded` on a real server, made once for all benchmarks of a run that need it."""

import asyncio
import atexit
import functools
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

from sluice.log.contract import Entry
from sluice.log.nats.connection import Connection
from sluice.log.nats.jetstream import JetStreamLog, read_ack
from sluice.log.nats.protocol import publish_frame
from tests.support.system import System

from .recorded import Recorder, Snapshot

EVENTS = 1_000_000
TAIL_EVENTS = 100_000
"""Behind the snapshots: half of what services let pass between two."""
BATCH = 500
"""Messages sent before an acknowledgement is waited for."""

ENV = {"SLUICE_LOG_LEVEL": "info", "SLUICE_SNAPSHOT_EVENTS": "1000000000", "SLUICE_SNAPSHOT_S": "86400"}
"""Services that take no snapshots of their own, so that each start finds what the benchmark left."""


@dataclass
class Recorded:
    """A server with the log on it. `snapshots`: by writer, of `TAIL_EVENTS` before the end."""

    system: System
    events: dict[str, int]
    live: dict[str, int]
    messages: int
    log_mb: float
    snapshots: dict[str, Snapshot]
    snapshot_tail: int
    """Events behind the snapshots."""
    seconds: float
    """What making it took."""

    @property
    def total(self) -> int:
        return sum(self.events.values())


@functools.cache
def recorded(events: int = EVENTS, tail: int = TAIL_EVENTS) -> Recorded:
    """Return the log, made at the first call; its server runs until the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="sluice-bench-")
    atexit.register(folder.cleanup)
    system = System(Path(folder.name), env=ENV)
    system.__enter__()
    # Registered later, so called before the folder goes.
    atexit.register(system.__exit__)
    return uvloop.run(_make(system, events, min(tail, events // 10)))


async def _make(system: System, events: int, tail: int) -> Recorded:
    log = await JetStreamLog(system.url, name="bench").open()
    connection = await log.connection()
    started = time.monotonic()
    unsent: list[Entry] = []
    recorder = Recorder(unsent.append)
    progress = _progress(started)
    await _play(recorder, connection, unsent, events - tail, progress)
    sides = {"scheduler": recorder.scheduler.snapshot(), "slices": recorder.slices.snapshot()}
    before = recorder.total
    await _play(recorder, connection, unsent, events, progress)
    info = await connection.ask("$JS.API.STREAM.INFO.SLUICE_main")
    await log.close()
    result = Recorded(
        system,
        recorder.events,
        recorder.live(),
        recorder.seq,
        info["state"]["bytes"] / 1e6,
        sides,
        recorder.total - before,
        time.monotonic() - started,
    )
    # What the recorder knew must not weigh on what is measured in this process.
    del recorder
    gc.collect()
    return result


def _progress(started: float) -> Callable[[int], None]:
    told = started

    def tell(events: int) -> None:
        nonlocal told
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"#   {told - started:4.0f} s: {events} events recorded", file=sys.stderr, flush=True)

    return tell


async def _play(
    recorder: Recorder,
    connection: Connection,
    unsent: list[Entry],
    events: int,
    progress: Callable[[int], None],
) -> None:
    while recorder.total < events:
        recorder.play(min(events, recorder.total + 2_000))
        for begin in range(0, len(unsent), BATCH):
            await _send(connection, unsent[begin : begin + BATCH])
        unsent.clear()
        progress(recorder.total)


async def _send(connection: Connection, entries: list[Entry]) -> None:
    """Store *entries*; the acknowledgement of the last one is that of all."""
    reply, future = connection.expect("sluice.main.")
    frames = [publish_frame("sluice.main." + e.suffix, e.payload, "", {}) for e in entries[:-1]]
    last = entries[-1]
    frames.append(publish_frame("sluice.main." + last.suffix, last.payload, reply, {}))
    connection.write(b"".join(frames))
    frame = await connection.answer(reply, future, 60.0)
    ack = read_ack(last.suffix, None, frame.payload)
    if ack.seq != last.seq:
        raise RuntimeError(f"recorded seq {last.seq} stands at {ack.seq}")
    await asyncio.sleep(0)
