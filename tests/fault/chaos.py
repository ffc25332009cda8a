"""Real faults, at random moments: SIGKILL of services and server, paused leaders, two leaders at once."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import nats
import nats.js.errors
from nats.aio.client import Client

from sluice.log.service import Status
from tests.system import Service, System

from .probe import Probe, leader, standby

DECIDERS = ("scheduler", "slice_aggregator", "variant_controller", "admission_check")
"""Services with a leader and stand-bys; two replicas of each are kept."""
APIS = 2
AGENTS = ("left", "right")

DECK = {
    "kill leader": 14,
    "kill one": 6,
    "kill all": 2,
    "kill leader and server": 2,
    "kill server": 6,
    "kill api": 8,
    "kill agent": 5,
    "kill agent for long": 3,
    "kill agent for long and lose claims": 2,
    "pause server": 2,
    "forget snapshots": 1,
    "lose claims": 3,
    "lose dispatch": 3,
    "lose checks": 1,
    "lose leases": 2,
    "lose heartbeats": 3,
    "lose snapshots": 2,
    "pause leader": 4,
    "two leaders": 4,
}
"""How often each fault comes in one round of about 60 kills."""

OF_DECIDERS = (
    "kill leader",
    "kill one",
    "kill all",
    "kill leader and server",
    "pause leader",
    "two leaders",
    "forget snapshots",
)
"""Faults that befall one service with a leader."""

LOST = "lose "
"""Begins the faults that delete a bucket."""

OF_AGENTS = ("kill agent", "kill agent for long", "kill agent for long and lose claims")

AWAY_S = 12.0
"""Longer than an agent may be silent before its jobs are given to others (heartbeat and patience: 8 s)."""

TAKE_OVER_S = 2.0
"""Wanted: the longest time from a leader's kill to another one's lead."""

PATIENCE_S = 120.0
"""After so long it will not come any more."""


@dataclass
class Chaos:
    """Does the damage, repairs it as a supervisor would, and notes what came of it."""

    system: System
    probe: Probe
    random: random.Random
    deck: dict[str, int] = field(default_factory=lambda: dict(DECK))
    agents: bool = True
    take_over_s: float = TAKE_OVER_S
    kills: int = 0
    done: dict[str, int] = field(default_factory=dict)
    takeovers_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    fenced: int = 0
    """Leaders that were seen to give way."""
    _cards: list[str] = field(default_factory=list)
    _turns: list[str] = field(default_factory=list)
    _away: set[asyncio.Task[None]] = field(default_factory=set)

    # the cell

    def start(self) -> None:
        """Start everything."""
        for _ in range(APIS):
            self.system.start("api")
        for folder in DECIDERS:
            self.system.start(folder)
            self.system.start(folder)
        if self.agents:
            for name in AGENTS:
                self._start_agent(name)

    def _start_agent(self, name: str) -> Service:
        env = {
            "AGENT_NAME": name,
            "AGENT_FLAVORS": "metal",
            "AGENT_CAPACITY": "3",
            "AGENT_WORK_DIR": str(self.system.directory / f"agent-{name}"),
            "AGENT_GRACE_S": "0.5",
        }
        return self.system.start("agent", env, label=f"agent-{name}")

    def _pids(self, folder: str) -> set[int]:
        return {service.pid for service in self.system.live(folder)}

    def _service(self, pid: int) -> Service:
        return next(service for service in self.system.live() if service.pid == pid)

    def _kill(self, service: Service) -> None:
        if service.alive:
            self.system.kill(service)
            self.kills += 1

    # faults

    async def one(self) -> str:
        """Do the next fault and repair it; returns what it was."""
        if not self._cards:
            self._cards = [what for what, count in self.deck.items() for _ in range(count)]
            self.random.shuffle(self._cards)
        what = self._cards.pop()
        if what in OF_AGENTS and not self.agents:
            return "nothing"
        if what.startswith(LOST):
            await self._lose(what.removeprefix(LOST))
            self.done[what] = self.done.get(what, 0) + 1
            return what
        faults: dict[str, Callable[[str], Awaitable[None]]] = {
            "kill leader": self._kill_leader,
            "kill one": self._kill_one,
            "kill all": self._kill_all,
            "kill leader and server": self._kill_leader_and_server,
            "kill server": self._kill_server,
            "kill api": self._kill_api,
            "kill agent": self._kill_agent,
            "kill agent for long": self._kill_agent_for_long,
            "kill agent for long and lose claims": self._kill_agent_and_lose_claims,
            "pause server": self._pause_server,
            "forget snapshots": self._forget_snapshots,
            "pause leader": self._pause_leader,
            "two leaders": self._two_leaders,
        }
        folder = self._next_folder() if what in OF_DECIDERS else ""
        await faults[what](folder)
        self.done[what] = self.done.get(what, 0) + 1
        return f"{what} ({folder})" if folder else what

    def _next_folder(self) -> str:
        """Return whose turn it is: at random, and evenly."""
        if not self._turns:
            self._turns = list(DECIDERS)
            self.random.shuffle(self._turns)
        return self._turns.pop()

    async def _sleep(self, most_s: float) -> None:
        await asyncio.sleep(self.random.random() * most_s)

    async def _warm(self, folder: str) -> tuple[Service, dict[int, int]] | None:
        """Wait for a leader and a warm stand-by.

        Returns the leader at some moment after, and how often each replica was fenced so far.
        """
        pids = self._pids(folder)

        def complete(answers: dict[int, Status]) -> bool:
            return leader(answers, pids) is not None and standby(answers, pids) is not None

        if await self.probe.until(folder, complete, PATIENCE_S) is None:
            self.wrong.append(f"{folder}: no leader and stand-by within {PATIENCE_S:.0f} s")
            return None
        await self._sleep(0.3)
        answers = await self.probe.until(folder, complete, PATIENCE_S) or {}
        pid = leader(answers, pids)
        if pid is None:
            self.wrong.append(f"{folder}: its leader has gone by itself")
            return None
        return self._service(pid), {each: answer.fenced for each, answer in answers.items()}

    async def _note_takeover(self, folder: str, began: float) -> None:
        """Wait until another replica leads, and note how long that took since *began*."""
        others = self._pids(folder) - self._paused
        found = await self.probe.until(folder, lambda a: leader(a, others) is not None, PATIENCE_S)
        took_s = time.monotonic() - began
        if found is None:
            self.wrong.append(f"{folder}: no leader within {PATIENCE_S:.0f} s")
            return
        self.takeovers_s.append(took_s)
        if took_s > self.take_over_s:
            self.wrong.append(f"{folder}: take-over in {took_s:.2f} s, wanted {self.take_over_s} s")

    @property
    def _paused(self) -> set[int]:
        return {service.pid for service in self.system.services if service.paused}

    async def _kill_leader(self, folder: str) -> None:
        warm = await self._warm(folder)
        if warm is not None:
            began = time.monotonic()
            self._kill(warm[0])
            await self._note_takeover(folder, began)
            self.system.start(folder)

    async def _kill_one(self, folder: str) -> None:
        """Whoever it is, and whatever it is doing: starting up, standing by, leading."""
        self._kill(self.random.choice(self.system.live(folder)))
        await self._sleep(0.5)
        self.system.start(folder)

    async def _kill_all(self, folder: str) -> None:
        for service in self.system.live(folder):
            self._kill(service)
        await self._sleep(1.0)
        self.system.start(folder)
        self.system.start(folder)

    async def _kill_server(self, _folder: str) -> None:
        self.system.server.kill()
        self.kills += 1
        await self._sleep(0.5)
        await asyncio.to_thread(self.system.server.start)

    async def _kill_leader_and_server(self, folder: str) -> None:
        """What the leader had not got an answer for is settled by its successor."""
        warm = await self._warm(folder)
        if warm is not None:
            self.system.server.kill()
            self.kills += 1
            await self._sleep(0.1)
            self._kill(warm[0])
            await asyncio.to_thread(self.system.server.start)
            await self._note_takeover(folder, time.monotonic())
            self.system.start(folder)

    async def _kill_api(self, _folder: str) -> None:
        live = self.system.live("api")
        if live:
            self._kill(self.random.choice(live))
        await self._sleep(0.5)
        self.system.start("api")

    def _kill_some_agent(self) -> str | None:
        here = [name for name in AGENTS if self.system.live(label=f"agent-{name}")]
        if not here:
            return None
        name = self.random.choice(here)
        for service in self.system.live(label=f"agent-{name}"):
            self._kill(service)
        return name

    async def _kill_agent(self, _folder: str) -> None:
        name = self._kill_some_agent()
        if name is not None:
            await self._sleep(1.0)
            self._start_agent(name)

    async def _kill_agent_for_long(self, _folder: str) -> None:
        """Its jobs are given to the other one meanwhile."""
        name = self._kill_some_agent()
        if name is not None:
            task = asyncio.create_task(self._back_later(name))
            self._away.add(task)
            task.add_done_callback(self._away.discard)

    async def _back_later(self, name: str) -> None:
        await asyncio.sleep(AWAY_S)
        self._start_agent(name)

    async def _kill_agent_and_lose_claims(self, folder: str) -> None:
        """Only the log remembers what it has begun."""
        await self._kill_agent_for_long(folder)
        await self._lose("claims")

    async def _lose(self, bucket: str) -> None:
        """Delete a bucket, as `nats kv del` does; who needs it makes it again."""
        await lose(self.probe.client, bucket)
        if bucket == "leases":
            # A take-over is measured from a lease that was seen.
            await asyncio.sleep(2.0)

    async def back(self) -> None:
        """Wait until all that was to come back is back."""
        if self._away:
            await asyncio.wait(self._away)

    async def _pause_server(self, _folder: str) -> None:
        """Nobody is disconnected, and nothing is answered."""
        pid = self.system.server.pid
        os.kill(pid, signal.SIGSTOP)
        await self._sleep(2.5)
        os.kill(pid, signal.SIGCONT)

    async def _forget_snapshots(self, folder: str) -> None:
        """Who starts now replays the whole log."""
        await lose(self.probe.client, "snapshots")
        await self._kill_all(folder)

    async def _pause_leader(self, folder: str) -> None:
        """Stop the leader until another one leads; when it comes back, it must find itself fenced."""
        warm = await self._warm(folder)
        if warm is None:
            return
        victim, fenced = warm
        began = time.monotonic()
        victim.pause()
        await self._note_takeover(folder, began)
        await self._sleep(1.0)
        victim.resume()
        await self._expect_fenced(folder, {victim.pid}, fenced)

    async def _expect_fenced(self, folder: str, pids: set[int], before: dict[int, int]) -> None:
        """Wait until one of *pids* says that it was fenced since *before*."""

        def gave_way(answers: dict[int, Status]) -> bool:
            return any(a.fenced > before.get(pid, 0) for pid, a in answers.items() if pid in pids)

        if await self.probe.until(folder, gave_way, PATIENCE_S) is None:
            self.wrong.append(f"{folder}: nobody was fenced within {PATIENCE_S:.0f} s")
        else:
            self.fenced += 1

    async def _two_leaders(self, folder: str) -> None:
        """Start one that leads by another lease: both decide, and the chain lets one commit at a time."""
        warm = await self._warm(folder)
        if warm is None:
            return
        rogue = self.system.start(
            f"{folder}-rogue", label=f"{folder}-rogue", command=("-m", "tests.fault.rogue", folder)
        )
        pids = {rogue.pid}
        if await self.probe.until(folder, lambda a: leader(a, pids) is not None, PATIENCE_S) is None:
            self.wrong.append(f"{folder}: the second leader does not lead within {PATIENCE_S:.0f} s")
        else:
            pids |= self._pids(folder)
            answers = await self.probe.until(folder, lambda a: bool(a.keys() & pids), PATIENCE_S) or {}
            # The chain fences who writes: without admission checks one of the services has nothing to say.
            if any(answer.own for answer in answers.values()):
                await self._expect_fenced(folder, pids, warm[1])
            await self._sleep(1.5)
        self._kill(rogue)


async def lose(client: Client, bucket: str) -> None:
    """Delete a bucket of the cell, if it is there and the server takes it."""
    kind = "OBJ" if bucket == "snapshots" else "KV"
    with contextlib.suppress(nats.errors.Error, nats.js.errors.Error, OSError, TimeoutError):
        await client.jetstream().delete_stream(f"{kind}_sluice_main_{bucket}")
