"""The link to one worker: what its log says goes into the manager's, what is ordered goes to the worker."""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from sluice.events.base import JobKey, WorkloadKey
from sluice.events.codec import encode_message
from sluice.events.job import JobDeleted, JobEvent
from sluice.log.contract import Entry
from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from sluice.protocol.cells import FOLLOWED, Fact, LinkDown, LinkUp, Order, RemoteReport, hold_controller
from sluice.protocol.checks import CONTROLLER, CheckVerdict, ControllerHeartbeat
from sluice.protocol.dispatch import key_token
from sluice.protocol.subjects import cell_suffix, job_suffix, verdict_suffix

from .offers import SizeError, as_offer, is_elastic, queue_of
from .remote import RemoteFold

PROBE_S = 0.5
ANSWER_S = 2.0
"""A worker that does not answer for so long is out of reach."""
AGAIN_S = 10.0
"""What was ordered is said again after so long, if the worker's log does not show it."""
QUIET = 2000
"""After so many messages without anything for the manager, it is told how far its worker was read."""
BEAT_S, BEAT_TTL_S = 1.5, 5
FACTS_MOST = 500

UNAVAILABLE = (EventLogError, ConnectionError, TimeoutError)
log = structlog.get_logger("sluice.dispatcher")


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the description of a link has: the worker's server, with credentials, and the name of its cell."""

    server: str
    cell: str = "main"


class Link:
    """Works until it is closed, whatever happens to the worker. *manifest*: returns that of a job here."""

    def __init__(
        self,
        name: str,
        where: Where,
        manager: JetStreamLog,
        manifest: Callable[[Order], Any],
        upto: Callable[[], int],
    ) -> None:
        self.name, self.where, self._manager, self._manifest = name, where, manager, manifest
        self._upto = upto
        self._worker = JetStreamLog(where.server, where.cell, name=f"dispatcher-{name}")
        self._remote = RemoteFold(manager.cell.name)
        self._hold = hold_controller(manager.cell.name)
        self._orders: Mapping[JobKey, Order] = {}
        self._said: dict[tuple[JobKey, str, tuple[int, ...]], float] = {}
        self._refused: list[Fact] = []
        self._is_up: bool | None = None
        """As was said last; None before anything was."""
        self._changed, self._arrived = asyncio.Event(), asyncio.Event()
        self._configured = asyncio.Event()
        """The worker's configuration was read: which queues hold what is offered is known."""
        self._task = asyncio.create_task(self._run(), name=f"link-{name}")

    def order(self, orders: Mapping[JobKey, Order]) -> None:
        """Take what is to be in the worker from here on."""
        self._orders = orders
        self._changed.set()

    def progressed(self) -> None:
        """Note that the manager may know more of the worker's log."""
        self._changed.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._worker.close()

    async def _run(self) -> None:
        while True:
            self._configured.clear()
            try:
                async with asyncio.TaskGroup() as group:
                    await self._worker.open(ANSWER_S)
                    await self._up()
                    for part in (self._probe, self._beat, self._follow, self._obey):
                        group.create_task(part())
            except* UNAVAILABLE as errors:
                reason = str(errors.exceptions[0]) or type(errors.exceptions[0]).__name__
                log.info("worker out of reach", cell=self.name, error=reason)
                await self._down(reason)
            await asyncio.sleep(PROBE_S)

    # The manager's log

    async def _tell(self, data: JobEvent, message_id: str = "") -> None:
        """Put a message into the manager's log, however long that takes."""
        message_id = message_id or f"{self.name}-{secrets.token_hex(8)}"
        payload = encode_message(
            message_id=message_id,
            source=f"sluice/link/{self.name}",
            event_type=type(data).__name__,
            subject=self.name,
            at=time.time_ns() // 1000,
            data=data,
        )
        while True:
            try:
                await self._manager.append(cell_suffix(self.name), payload, msg_id=message_id)
                return
            except UNAVAILABLE:
                await asyncio.sleep(PROBE_S)

    async def _up(self) -> None:
        self._said.clear()
        if self._is_up is not True:
            await self._tell(LinkUp())
        self._is_up = True

    async def _down(self, reason: str) -> None:
        """Say that the worker is out of reach, once: it may stay so for days."""
        if self._is_up is not False:
            await self._tell(LinkDown(message=reason[:512]))
        self._is_up = False

    # The worker's log

    async def _probe(self) -> None:
        while True:
            async with asyncio.timeout(ANSWER_S):
                await self._worker.end()
            await asyncio.sleep(PROBE_S)

    async def _follow(self) -> None:
        """Report what the worker's log says, from behind what the manager knows.

        What it says of configuration, and has said of live jobs, is folded before, and not reported.
        """
        begin = self._upto()
        self._remote = RemoteFold(self._manager.cell.name)
        self._remote.know(list(self._orders.values()))
        async for entries in self._worker.read(1, ["config"]):
            list(self._remote.facts(entries))
        self._configured.set()
        tail = self._worker.tail(begin + 1, FOLLOWED, self._arrived.set)
        try:
            while True:
                self._arrived.clear()
                entries = tail.take()
                if entries or self._refused:
                    await self._report(entries)
                else:
                    await self._arrived.wait()
        finally:
            await tail.close()

    async def _report(self, entries: Sequence[Entry]) -> None:
        facts: list[Fact] = []
        for entry in entries:
            facts += self._remote.facts([entry])
            if len(facts) >= FACTS_MOST:
                await self._send(entry.seq, facts)
                facts = []
        end = entries[-1].seq if entries else self._upto()
        if facts or self._refused or end - self._upto() > QUIET:
            await self._send(end, facts)

    async def _send(self, upto: int, facts: Sequence[Fact]) -> None:
        """Report, and wait until the manager has taken it: what follows must say behind which report."""
        refused, self._refused = self._refused, []
        after = self._upto()
        report = RemoteReport(after=after, upto=upto, facts=(*refused, *facts))
        while True:
            await self._tell(report)
            for _ in range(200):
                if self._upto() >= upto and (upto > after or not facts):
                    return
                await asyncio.sleep(0.01)

    # Orders

    async def _obey(self) -> None:
        await self._configured.wait()
        while True:
            self._changed.clear()
            now = time.monotonic()
            for order in list(self._orders.values()):
                key = (order.job, order.do, (order.lift, order.edition, order.growth_lift))
                if self._said.get(key, -AGAIN_S) + AGAIN_S > now:
                    continue
                if await self._carry_out(order):
                    self._said[key] = now
            live = {order.job for order in self._orders.values()}
            self._said = {key: at for key, at in self._said.items() if key[0] in live}
            try:
                async with asyncio.timeout(1.0):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _carry_out(self, order: Order) -> bool:
        there = self._remote.name_there(order.job)
        namespace, _, name = there.partition("/")
        suffix = job_suffix(namespace, name)
        if order.do == "Withdraw":
            await self._say(suffix, JobDeleted(message="Withdrawn by its manager"), there)
            return True
        if order.lift and not order.started:
            await self._lift(order, order.remote, order.remote_uid, order.lift)
        if order.growth_lift:
            await self._lift(order, order.growth, order.growth_uid, order.growth_lift)
        if order.remote and order.answered == order.edition:
            return True
        manifest = await self._manifest(order)
        if manifest is None:
            self._refuse(order, "the manager's log has no manifest of the job")
            return True
        try:
            offered = as_offer(manifest, order, there, self._manager.cell.name)
        except SizeError as error:
            self._refuse(order, str(error))
            return True
        if order.remote and is_elastic(offered) and not self._remote.holds.resizes:
            self._refuse(order, "elastic jobs are off there, and another size would stop the job")
            return True
        queue = f"{namespace}/{queue_of(offered)}"
        if not self._remote.holds.check_of(queue):
            self._refuse(order, f"its queue {queue} has no check of controller {self._hold} for all flavors")
            return True
        # The same id as long as the server knows it; after that a copy is a duplicate of what lives.
        known = "" if order.edition else f"{self._manager.cell.name}.{there}"
        seq = await self._say(suffix, offered, there, "JobSubmitted", known)
        if order.edition:
            self._remote.sent(seq, order.job, order.edition)
        return True

    async def _lift(self, order: Order, workload: WorkloadKey, uid: str, attempt: int) -> None:
        hold = self._remote.check_of.get(order.job) or self._remote.holds.first()
        verdict = CheckVerdict(workload=workload, uid=uid, check=hold, attempt=attempt, state="Ready")
        await self._say(verdict_suffix(self._hold), verdict, workload)

    def _refuse(self, order: Order, why: str) -> None:
        """Answer for the worker, where nothing is put into its log."""
        if order.remote:
            self._refused.append(Fact(kind="Edited", job=order.job, attempt=order.edition, message=why))
        else:
            self._refused.append(Fact(kind="Refused", job=order.job, message=why))
        self._arrived.set()

    async def _say(
        self, suffix: str, data: object, subject: str, kind: str = "", message_id: str = ""
    ) -> int:
        """Put a message into the worker's log, and return where it stands there."""
        message_id = message_id or f"{self._manager.cell.name}-{secrets.token_hex(8)}"
        payload = encode_message(
            message_id=message_id,
            source=f"sluice/manager/{self._manager.cell.name}",
            event_type=kind or type(data).__name__,
            subject=subject,
            at=time.time_ns() // 1000,
            data=data,
        )
        return (await self._worker.append(suffix, payload, msg_id=message_id)).seq

    async def _beat(self) -> None:
        """Say in the worker that the controller of the hold is there."""
        await beating(self._worker, self._hold)


async def beating(target: JetStreamLog, controller: str) -> None:
    """Keep the heartbeat of a controller of checks alive, for as long as this runs."""
    bucket = Bucket(target, "heartbeats", memory=True)
    beat = ControllerHeartbeat(name=controller, instance=f"dispatcher-{secrets.token_hex(3)}")
    while True:
        await bucket.put(f"{CONTROLLER}.{key_token(controller)}", msgspec.json.encode(beat), ttl_s=BEAT_TTL_S)
        await asyncio.sleep(BEAT_S)
