"""Real faults, at random moments: SIGKILL of services and server, paused leaders, two leaders at once."""

import asyncio
import random
import time
from dataclasses import dataclass, field

import msgspec
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from sluice.log.service import Digest, Status
from tests.system import Service, System


async def ask[T](
    client: Client, subject: str, answer: type[T], wait_s: float = 0.3, most: int = 8
) -> list[T]:
    """Return what every replica answers within *wait_s*."""
    answers: list[T] = []
    inbox = client.new_inbox()

    async def take(message: Msg) -> None:
        if message.data:
            answers.append(msgspec.json.decode(message.data, type=answer))

    subscription = await client.subscribe(inbox, cb=take)
    try:
        await client.publish(subject, b"", reply=inbox)
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline and len(answers) < most:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    finally:
        await subscription.unsubscribe()
    return answers


@dataclass
class Chaos:
    """Does the damage, and counts it."""

    system: System
    client: Client
    random: random.Random
    names: dict[str, str]
    """Folder of the service -> the name under which it answers."""
    cell: str = "main"
    kills: int = 0
    done: dict[str, int] = field(default_factory=dict)
    takeovers_s: list[float] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)

    async def statuses(self, folder: str, wait_s: float = 0.3) -> list[Status]:
        replicas = len(self.system.live(folder))
        subject = f"sluice.{self.cell}.control.{self.names[folder]}.status"
        try:
            return await ask(self.client, subject, Status, wait_s, replicas)
        except (nats.errors.Error, OSError):
            return []

    async def digests(self, folder: str) -> list[Digest]:
        replicas = len(self.system.live(folder))
        subject = f"sluice.{self.cell}.control.{self.names[folder]}.digest"
        return await ask(self.client, subject, Digest, 10.0, replicas)

    async def leader(self, folder: str) -> Service | None:
        for status in await self.statuses(folder):
            if status.role == "leader":
                for service in self.system.live(folder):
                    if service.process.pid == status.pid:
                        return service
        return None

    async def one(self) -> str:
        """Do one random damage and repair it; returns what it was."""
        folder = self.random.choice(sorted(self.names))
        kind = self.random.choices(
            ["kill leader", "kill any", "kill both", "server", "pause", "two leaders"], [8, 4, 1, 2, 2, 1]
        )[0]
        await {
            "kill leader": self._kill_leader,
            "kill any": self._kill_any,
            "kill both": self._kill_both,
            "server": self._server,
            "pause": self._pause,
            "two leaders": self._two_leaders,
        }[kind](folder)
        self.done[kind] = self.done.get(kind, 0) + 1
        return f"{kind} ({folder})" if kind != "server" else kind

    async def _kill_leader(self, folder: str) -> None:
        victim = await self.leader(folder)
        if victim is None:
            return
        ready = any(s.role == "standby" for s in await self.statuses(folder))
        self._kill(victim)
        began = time.monotonic()
        if ready:
            await self._note_takeover(folder, began)
        self.system.start(folder)

    async def _note_takeover(self, folder: str, began: float) -> None:
        while time.monotonic() - began < 10:
            if any(s.role == "leader" for s in await self.statuses(folder, 0.1)):
                self.takeovers_s.append(time.monotonic() - began)
                return
        self.slow.append(f"{folder}: no leader for 10 s")

    async def _kill_any(self, folder: str) -> None:
        live = self.system.live(folder)
        if live:
            self._kill(self.random.choice(live))
        await asyncio.sleep(self.random.random() * 0.5)
        self.system.start(folder)

    async def _kill_both(self, folder: str) -> None:
        for service in self.system.live(folder):
            self._kill(service)
        await asyncio.sleep(self.random.random())
        self.system.start(folder)
        self.system.start(folder)

    async def _server(self, _folder: str) -> None:
        self.system.server.kill()
        self.kills += 1
        await asyncio.sleep(self.random.random() * 0.5)
        self.system.server.start()

    async def _pause(self, folder: str) -> None:
        """Stop the leader for longer than its lease; when it comes back, another leads, and it is fenced."""
        leader = await self.leader(folder)
        if leader is None:
            return
        leader.pause()
        await asyncio.sleep(2.5)
        leader.resume()

    async def _two_leaders(self, _folder: str) -> None:
        """Take the lease away from under the leader: another takes it while the first still decides."""
        try:
            bucket = f"KV_sluice_{self.cell}_leases"
            await self.client.jetstream().purge_stream(bucket)
        except (nats.errors.Error, nats.js.errors.Error, OSError, TimeoutError):
            return
        await asyncio.sleep(0.5)

    def _kill(self, service: Service) -> None:
        self.system.kill(service)
        self.kills += 1
