"""Which agents are there: records in the log that one has come or gone (law 7), on change only.

Agents keep a heartbeat with a time to live in the bucket `sluice_<cell>_heartbeats`. The leader
compares its keys with what the log says, and publishes the difference until the log agrees.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from sluice.core.slices_state import State
from sluice.events.codec import encode_message
from sluice.events.dispatch import key_text
from sluice.log.errors import EventLogError
from sluice.log.hooks import Hooks
from sluice.log.jetstream import JetStreamLog
from sluice.log.stream import ensure_bucket
from sluice.log.subjects import presence_suffix

from .config import Config

KIND = "agent"
REPEAT_S = 5.0
"""A record that the log did not take in for so long is published again."""

log = structlog.get_logger("sluice.slice_aggregator.presence")


class PresenceWatcher(Hooks[State]):
    """Watches heartbeats while this replica leads."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.target: JetStreamLog | None = None
        self._state: State | None = None
        self._task: asyncio.Task[None] | None = None
        self._absent: dict[str, float] = {}
        self._told: dict[tuple[str, str], float] = {}

    def leading(self, state: State, own: int) -> None:  # noqa: ARG002
        self._state = state
        self._absent, self._told = {}, {}
        self._task = asyncio.create_task(self._watch(), name="presence")

    def following(self) -> None:
        self._state = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        while True:
            try:
                await self._compare(await self._heartbeats())
            except (EventLogError, ConnectionError, TimeoutError) as error:
                # Nobody is lost because we cannot see: the clock starts again when we can.
                self._absent.clear()
                log.info("heartbeats not seen", error=str(error) or type(error).__name__)
            await asyncio.sleep(self.config.poll_s)

    async def _heartbeats(self) -> dict[str, int]:
        """Return agent -> sequence of its heartbeat."""
        assert self.target is not None
        bucket = self.target.cell.bucket("heartbeats")
        connection = await self.target.connection()
        subject, prefix = f"$JS.API.STREAM.INFO.KV_{bucket}", f"$KV.{bucket}.{KIND}."
        answer = await connection.ask(subject, {"subjects_filter": f"{prefix}>"})
        if "error" in answer:
            self._absent.clear()
            await ensure_bucket(connection, bucket, self.target.replicas, memory=True)
            return {}
        subjects: Mapping[str, Any] = answer["state"].get("subjects") or {}
        return {key_text(key.removeprefix(prefix)): count for key, count in subjects.items()}

    async def _compare(self, there: Mapping[str, int]) -> None:
        state, now = self._state, time.monotonic()
        if state is None:
            return
        for name in there:
            self._absent.pop(name, None)
            if not state.executors.get(name):
                await self._tell(name, "Seen", now)
        # Also agents lost already that still hold jobs: a claim of theirs came after the loss.
        for name in [n for n, present in state.executors.items() if present or n in state.claimed]:
            if name in there:
                continue
            since = self._absent.setdefault(name, now)
            if now - since >= self.config.lost_after_s:
                await self._tell(name, "Lost", now)

    async def _tell(self, name: str, what: str, now: float) -> None:
        assert self.target is not None
        if now - self._told.get((name, what), -REPEAT_S) < REPEAT_S:
            return
        self._told.pop((name, "Lost" if what == "Seen" else "Seen"), None)
        at = time.time_ns() // 1000
        message_id = f"{what}-{KIND}-{name}-{at}"
        payload = encode_message(
            message_id=message_id,
            source="slice-aggregator",
            event_type=what,
            subject=name,
            at=at,
            data=msgspec.Raw(b"{}"),
        )
        log.info("agent", name=name, presence=what)
        await self.target.append(presence_suffix(KIND, name), payload, msg_id=message_id)
        self._told[(name, what)] = now

    async def drain(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
