"""Answers what parties ask of JetStream's API: passes on what they may, and says why not."""

import asyncio
import contextlib
import secrets
import time
from pathlib import Path
from typing import Any

import msgspec
import structlog

from sluice import __version__
from sluice.log.errors import EventLogError
from sluice.log.nats.connection import Connection, Link
from sluice.log.nats.jetstream_api import refusal
from sluice.log.nats.protocol import Frame
from sluice.log.nats.responder import Responder
from sluice.log.nats.streams import ensure_bucket
from sluice.log.runtime.config import CellConfig
from sluice.protocol.subjects import Cell
from sluice.rights.gate_policy import Forward, Judgement, Make, Refusal, judge
from sluice.rights.parties import Party
from sluice.rights.roles import RolesError, parties_of, read

from .config import Config
from .ingress import Ingress
from .meter import Meter

ASK_S = 5.0
BURST = 10
LOOK_S = 0.5
MEMORY_BUCKETS = ("heartbeats",)
TOO_MANY, MAY_NOT, NOBODY = 429, 403, 503

log = structlog.get_logger("sluice.gate")


class Gate:
    """Serves until *stop*. It keeps nothing but rates: any number of gates share the requests."""

    def __init__(self, cell: CellConfig, config: Config) -> None:
        self.names, self.replicas = Cell(cell.cell), cell.replicas
        self.instance = cell.instance
        self._config = config
        self._roles, self._read = Path(config.roles), 0
        self._parties = self._known()
        self._allowances: dict[str, Meter] = {}
        self._ingress = Ingress(cell.nats_url, cell.cell, config.replicas, config.questions_per_s)
        self._prefix = self.names.subject("gate.")
        self._link = Link(cell.nats_url, "gate", sink=self._sink, on_connect=self._connected)
        self._responder = Responder(cell.nats_url, f"gate-{cell.instance}")
        self._tasks: set[asyncio.Task[None]] = set()
        self.passed = self.refused = 0

    def _known(self) -> dict[str, Party]:
        """Return the parties by name.

        Raises:
            RolesError, OSError: the file of roles is wrong.
        """
        self._read = self._roles.stat().st_mtime_ns
        return {party.user: party for party in parties_of(read(self._roles))}

    async def _watch_roles(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            with contextlib.suppress(OSError):
                if self._roles.stat().st_mtime_ns != self._read:
                    try:
                        self._parties = self._known()
                        await self._ingress.serve(self._parties.values())
                        log.info("roles read", parties=sorted(self._parties))
                    except RolesError as error:
                        log.error("roles not read, the earlier ones hold", error=str(error))

    async def run(self, stop: asyncio.Event) -> None:
        watching = asyncio.create_task(self._watch_roles())
        self._tasks.add(watching)
        await self._link.connection()
        await self._ingress.serve(self._parties.values())
        await self._responder.open_in_the_end()
        await self._responder.offer(
            "sluice-gate",
            __version__,
            f"What parties may ask of JetStream in the Sluice cell {self.names.name}",
            {"cell": self.names.name, "instance": self.instance},
            self._stats,
        )
        await self._responder.endpoint("health", self.names.control("gate", "health"), self._health)
        log.info("serving", instance=self.instance, parties=sorted(self._parties))
        await stop.wait()
        for task in self._tasks:
            task.cancel()
        await self._responder.close()
        await self._ingress.close()
        await self._link.close()

    def _stats(self) -> dict[str, Any]:
        return {
            "role": "serving",
            "passed": self.passed,
            "refused": self.refused,
            "taken": self._ingress.taken,
            "notTaken": self._ingress.refused,
        }

    async def _health(self, _: bytes) -> bytes:
        return msgspec.json.encode({"service": "gate", "instance": self.instance, "role": "serving"})

    def _connected(self, connection: Connection) -> None:
        connection.write(b"SUB %s> gate 2\r\n" % self._prefix.encode())

    def _sink(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame.reply:
                task = asyncio.create_task(self._answer(frame))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, frame: Frame) -> None:
        request = frame.subject.decode(errors="backslashreplace")[len(self._prefix) :]
        user, _, asked = request.partition(".")
        connection = await self._link.connection()
        party = self._parties.get(user)
        if party is None:
            judgement: Judgement = Refusal(f"no party {user!r} is known here")
        else:
            judgement = judge(party, asked, frame.payload, secrets.token_hex(16))
        answer = await self._carried_out(connection, user, asked, judgement)
        connection.publish(frame.reply.decode(errors="backslashreplace"), answer)

    async def _carried_out(
        self, connection: Connection, user: str, asked: str, judgement: Judgement
    ) -> bytes:
        if isinstance(judgement, Refusal):
            self.refused += 1
            log.warning("refused", party=user, request=asked[:200], why=judgement.why)
            return refusal(MAY_NOT, judgement.why)
        if asked.startswith("CONSUMER.CREATE.") and (wait_s := self._wait_s(user)):
            self.refused += 1
            return refusal(TOO_MANY, f"too many consumers; try again in {wait_s:.2f} s", wait_s)
        self.passed += 1
        try:
            return await self._asked(connection, judgement)
        except (EventLogError, ConnectionError, TimeoutError) as error:
            return refusal(NOBODY, str(error) or "no answer")

    def _wait_s(self, user: str) -> float:
        """Return how long a party has to wait until it may make another consumer."""
        per_s = self._config.consumers_per_s
        return self._allowances.setdefault(user, Meter(per_s, per_s * BURST)).take(time.monotonic())

    async def _asked(self, connection: Connection, judgement: Forward | Make) -> bytes:
        if isinstance(judgement, Make):
            what = judgement.bucket
            memory = what in MEMORY_BUCKETS
            await ensure_bucket(connection, self.names.bucket(what), self.replicas, memory=memory)
            return b"{}"
        return (await connection.request(judgement.subject, judgement.body, timeout_s=ASK_S)).payload
