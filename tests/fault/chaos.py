"""Real faults, at random moments: killed services and server, paused leaders, two leaders, lost buckets."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import nats
import nats.js.errors
from nats.aio.client import Client

from sluice.log.runtime.service import Status
from tests.support.system import Service, System

from .healing import PATIENCE_S, UNAVAILABLE, Healing, Sign
from .probe import Probe, leader, standby
from .staff import OF_STAFF, Staff

DECIDERS = ("scheduler", "slice_aggregator", "variant_controller", "admission_check")
"""Services with a leader and stand-bys; two replicas of each are kept."""
APIS = 2

LEAST = 2
"""So often at least each kind of fault comes in a whole run."""

DECK = {
    "kill leader": 12,
    "kill one": 6,
    "kill all": 2,
    "kill leader and server": 2,
    "kill server": 5,
    "kill api": 6,
    "kill agent": 4,
    "kill agent for long": 3,
    "kill agent for long and lose claims": 2,
    "kill bridge": 4,
    "kill bridge for long": 3,
    "kill bridge for long and lose claims": 2,
    "kill controller": 2,
    "kill controller for long": 2,
    "pause server": 2,
    "forget snapshots": 2,
    "lose claims": 3,
    "lose dispatch": 3,
    "lose checks": 2,
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

FILLED_S = 10.0
"""So long a bucket that is to be deleted is waited for until there is something in it."""

TAKE_OVER_S = 2.0
"""Wanted: the longest time from a leader's kill to another one's lead."""


@dataclass
class Chaos:
    """Does the damage, repairs it as a supervisor would, and notes what came of it.

    *damaged*: services with a leader that are damaged; all have two replicas, others one.
    """

    system: System
    probe: Probe
    random: random.Random
    staff: Staff
    healing: Healing
    deck: Mapping[str, int] = field(default_factory=lambda: dict(DECK))
    damaged: Sequence[str] = DECIDERS
    take_over_s: float = TAKE_OVER_S
    apis: int = APIS
    judging: bool = True
    """Whether the first fault of each kind that has a limit is watched alone, and buckets are waited for."""
    kills: int = 0
    done: dict[str, int] = field(default_factory=dict)
    """Faults that befell somebody."""
    takeovers_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    fenced: int = 0
    """Leaders that were seen to give way."""
    _cards: list[str] = field(default_factory=list)
    _turns: list[str] = field(default_factory=list)

    # the cell

    def start(self) -> None:
        """Start everything."""
        for _ in range(self.apis):
            self.system.start("api")
        for folder in DECIDERS:
            for _ in range(2 if folder in self.damaged else 1):
                self.system.start(folder)
        self.staff.start()

    def _pids(self, folder: str) -> set[int]:
        return {service.pid for service in self.system.live(folder)}

    def _service(self, pid: int) -> Service:
        return next(service for service in self.system.live() if service.pid == pid)

    def _kill(self, service: Service) -> None:
        if service.alive:
            self.system.kill(service)
            self.kills += 1

    # faults

    def lacking(self, least: int) -> list[str]:
        """Return the faults that have not come so often yet."""
        return [what for what, count in self.deck.items() if self.done.get(what, 0) < min(least, count)]

    async def one(self, least: int = 0) -> str:
        """Do the next fault and repair it; returns what it was. *least*: one that came less often."""
        what = self._next_card(self.lacking(least))
        folder = self._next_folder() if what in OF_DECIDERS else ""
        alone = self.judging and self.healing.is_due(what)
        if alone:
            await self.healing.settled(but=("lose snapshots", *OF_STAFF))
        waits_s = self.healing.waits_s() if alone else {}
        if not await self._do(what, folder):
            return f"nothing ({what})"
        self.done[what] = self.done.get(what, 0) + 1
        if alone:
            await self.healing.judge(what, waits_s)
        return f"{what} ({folder})" if folder else what

    def _next_card(self, lacking: list[str]) -> str:
        if lacking:
            return self.random.choice(lacking)
        if not self._cards:
            self._cards = [what for what, count in self.deck.items() for _ in range(count)]
            self.random.shuffle(self._cards)
        return self._cards.pop()

    async def _do(self, what: str, folder: str) -> bool:
        """Do it, and have it watched until it has healed; False if there was nobody whom it could befall."""
        if what.startswith(LOST):
            return await self._lose(what)
        if what in OF_STAFF:
            return await self._kill_staff(what)
        faults: dict[str, Callable[[str], Awaitable[None]]] = {
            "kill leader": self._kill_leader,
            "kill one": self._kill_one,
            "kill all": self._kill_all,
            "kill leader and server": self._kill_leader_and_server,
            "kill server": self._kill_server,
            "kill api": self._kill_api,
            "pause server": self._pause_server,
            "forget snapshots": self._forget_snapshots,
            "pause leader": self._pause_leader,
            "two leaders": self._two_leaders,
        }
        await faults[what](folder)
        return True

    def _next_folder(self) -> str:
        """Return whose turn it is: at random, and evenly."""
        if not self._turns:
            self._turns = list(self.damaged)
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

    async def _note_takeover(self, fault: str, folder: str, began: float) -> None:
        """Wait until another replica leads, and note how long that took since *began*."""
        others, waits_s = self._pids(folder) - self._paused, self.healing.waits_s()
        found = await self.probe.until(folder, lambda a: leader(a, others) is not None, PATIENCE_S)
        took_s = time.monotonic() - began
        if found is None:
            self.wrong.append(f"{folder}: no leader within {PATIENCE_S:.0f} s")
            return
        self.takeovers_s.append(took_s)
        self.healing.note(fault, took_s)
        self.healing.hold_against(f"{folder}: take-over", took_s, self.take_over_s, waits_s)

    def _watch_replicas(self, fault: str, folder: str) -> None:
        """Watch until there are a leader and a stand-by."""
        pids = self._pids(folder)

        async def sign() -> bool | None:
            if not pids <= self._pids(folder):
                return None

            def complete(answers: dict[int, Status]) -> bool:
                return leader(answers, pids) is not None and standby(answers, pids) is not None

            return await self.probe.until(folder, complete, 1.0) is not None

        self.healing.watch(fault, sign)

    @property
    def _paused(self) -> set[int]:
        return {service.pid for service in self.system.services if service.paused}

    async def _kill_leader(self, folder: str) -> None:
        warm = await self._warm(folder)
        if warm is not None:
            began = time.monotonic()
            self._kill(warm[0])
            await self._note_takeover("kill leader", folder, began)
            self.system.start(folder)

    async def _kill_one(self, folder: str) -> None:
        """Whoever it is, and whatever it is doing: starting up, standing by, leading."""
        self._kill(self.random.choice(self.system.live(folder)))
        await self._sleep(0.5)
        self.system.start(folder)
        self._watch_replicas("kill one", folder)

    async def _kill_all(self, folder: str, fault: str = "kill all") -> None:
        for service in self.system.live(folder):
            self._kill(service)
        await self._sleep(1.0)
        self.system.start(folder)
        self.system.start(folder)
        self._watch_replicas(fault, folder)

    async def _kill_server(self, _folder: str) -> None:
        began = time.monotonic()
        self.system.server.kill()
        self.kills += 1
        await self._sleep(0.5)
        await asyncio.to_thread(self.system.server.start)
        self.healing.watch("kill server", self.healing.decides("scheduler"), began)

    async def _kill_leader_and_server(self, folder: str) -> None:
        """What the leader had not got an answer for is settled by its successor."""
        warm = await self._warm(folder)
        if warm is not None:
            self.system.server.kill()
            self.kills += 1
            await self._sleep(0.1)
            self._kill(warm[0])
            await asyncio.to_thread(self.system.server.start)
            await self._note_takeover("kill leader and server", folder, time.monotonic())
            self.system.start(folder)

    async def _kill_api(self, _folder: str) -> None:
        began = time.monotonic()
        live = self.system.live("api")
        if live:
            self._kill(self.random.choice(live))
        self.healing.watch("kill api", self._answers, began)
        await self._sleep(0.5)
        self.system.start("api")

    async def _answers(self) -> bool:
        with contextlib.suppress(nats.errors.Error, OSError):
            await self.probe.client.request(f"sluice.{self.probe.cell}.query.status", b"{}", timeout=1.0)
            return True
        return False

    async def _kill_staff(self, what: str) -> bool:
        kind = what.split()[1]
        name = self.staff.pick(kind)
        if name is None:
            return False
        if "lose claims" in what and not await self._filled("lose claims"):
            return False
        self.kills += await self.staff.kill(kind, name, what)
        # Only the log remembers what it has begun.
        return "lose claims" not in what or await lose(self.probe.client, "claims")

    async def _lose(self, fault: str) -> bool:
        """Delete a bucket that has something in it, as `nats kv del` does; who needs it makes it again."""
        sign = await self._filled(fault)
        if sign is None:
            return False
        began = time.monotonic()
        if not await lose(self.probe.client, fault.removeprefix(LOST)):
            return False
        self.healing.watch(fault, sign, began)
        if fault == "lose leases":
            # A take-over is measured from a lease that was seen.
            await asyncio.sleep(2.0)
        return True

    async def _filled(self, fault: str) -> Sign | None:
        """Wait until the bucket of *fault* has something in it, for a while; returns when it has healed."""
        deadline = time.monotonic() + (FILLED_S if self.judging else 1.0)
        while time.monotonic() < deadline:
            with contextlib.suppress(*UNAVAILABLE):
                if (sign := await self._contents(fault.removeprefix(LOST))) is not None:
                    return sign
            await asyncio.sleep(0.05)
        return None

    async def _contents(self, bucket: str) -> Sign | None:
        """Return what tells that the bucket, which is to be deleted, is back; None if it is empty."""
        healing = self.healing
        match bucket:
            case "claims":
                claims = await healing.active_claims()
                return healing.claimed(claims) if claims else None
            case "heartbeats":
                beats = await healing.bucket(bucket).keys()
                return healing.beats(beats, self.staff.excuse()) if beats else None
            case "leases":
                return healing.leases() if await healing.bucket(bucket).keys() else None
            case "snapshots":
                there = await healing.snapshots()
                return healing.snapshot_each(there) if there else None
            case _:
                standing = await healing.standing(bucket)
                # One key says that it is whole.
                filled = standing is not None and len(await healing.bucket(bucket).keys()) > 1
                return healing.whole(bucket, standing) if filled else None

    async def _pause_server(self, _folder: str) -> None:
        """Nobody is disconnected, and nothing is answered."""
        pid, began = self.system.server.pid, time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        await self._sleep(2.5)
        os.kill(pid, signal.SIGCONT)
        self.healing.watch("pause server", self.healing.decides("scheduler"), began)

    async def _forget_snapshots(self, folder: str) -> None:
        """Who starts now replays the whole log."""
        await lose(self.probe.client, "snapshots")
        await self._kill_all(folder, "forget snapshots")

    async def _pause_leader(self, folder: str) -> None:
        """Stop the leader until another one leads; when it comes back, it must find itself fenced."""
        warm = await self._warm(folder)
        if warm is None:
            return
        victim, fenced = warm
        began = time.monotonic()
        victim.pause()
        await self._note_takeover("pause leader", folder, began)
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
                began = time.monotonic()
                await self._expect_fenced(folder, pids, warm[1])
                self.healing.note("two leaders", time.monotonic() - began)
            await self._sleep(1.5)
        self._kill(rogue)


async def lose(client: Client, bucket: str, cell: str = "main") -> bool:
    """Delete a bucket of the cell; False if there was none, or the server did not take it."""
    kind = "OBJ" if bucket == "snapshots" else "KV"
    with contextlib.suppress(nats.errors.Error, nats.js.errors.Error, OSError, TimeoutError):
        return await client.jetstream().delete_stream(f"{kind}_sluice_{cell}_{bucket}")
    return False
