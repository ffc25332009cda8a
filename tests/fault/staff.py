"""Those who work for the cell from outside, and crash: agents, executors of the SDK, check controllers."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluice.protocol.dispatch import Claim, key_token
from sluice.protocol.subjects import presence_suffix
from tests.support.system import Service, System

from .check_controller import controller_name
from .configuration import REAL
from .healing import Healing, Sign

AGENTS = ("left", "right")
BRIDGES = ("east", "west")
KINDS = ("agent", "bridge", "controller")
OF_STAFF = tuple(
    f"kill {kind}{how}"
    for kind in KINDS
    for how in ("", " for long", " for long and lose claims")
    if kind != "controller" or "claims" not in how
)
"""Faults that befall one of them."""

AWAY_S = 12.0
"""They are away for so long at least, and until the log says that they are lost: heartbeat and patience are
8 s, later if nobody could look meanwhile."""
MORE_S = 6.0
"""And for up to so much longer."""


@dataclass
class Staff:
    """Starts them, kills them, and has them come back."""

    system: System
    healing: Healing
    random: random.Random
    agents: Sequence[str] = AGENTS
    bridges: Sequence[str] = BRIDGES
    controllers: Sequence[str] = ()
    """Names of the checks that have one."""
    killed: dict[str, int] = field(default_factory=dict)
    """Label -> how often."""
    _away: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self) -> None:
        for kind in KINDS:
            for name in self._names(kind):
                self._start(kind, name)

    def may(self, fault: str) -> bool:
        """Tell whether there is somebody whom it could befall."""
        return fault not in OF_STAFF or bool(self._names(fault.split()[1]))

    def _names(self, kind: str) -> Sequence[str]:
        return {"agent": self.agents, "bridge": self.bridges, "controller": self.controllers}[kind]

    def _start(self, kind: str, name: str) -> Service:
        label = f"{kind}-{name}"
        if kind == "agent":
            env = {
                "AGENT_NAME": name,
                "AGENT_FLAVORS": REAL,
                "AGENT_CAPACITY": "6",
                "AGENT_WORK_DIR": str(self.system.directory / label),
                "AGENT_GRACE_S": "0.5",
            }
            return self.system.start("agent", env, label=label)
        if kind == "bridge":
            command = ["-m", "tests.fault.bridge", name, str(self.system.directory)]
        else:
            command = ["-m", "tests.fault.check_controller", name]
        return self.system.start(kind, label=label, command=command)

    def _here(self, kind: str) -> list[str]:
        return [name for name in self._names(kind) if self.system.live(label=f"{kind}-{name}")]

    def away_controllers(self) -> list[str]:
        """Return the checks whose controller is away."""
        here = self._here("controller")
        return [check for check in self.controllers if check not in here]

    def pick(self, kind: str) -> str | None:
        """Return the name of one that is there."""
        here = self._here(kind)
        return self.random.choice(here) if here else None

    async def kill(self, kind: str, name: str, fault: str) -> int:
        """Kill one and have it come back, after *fault* soon or late; returns how many processes that was."""
        label = f"{kind}-{name}"
        services = self.system.live(label=label)
        controller = kind == "controller"
        presence = presence_suffix(*((kind, controller_name(name)) if controller else ("agent", name)))
        before = await self.healing.asked(lambda: self.healing.last(presence))
        claims = {} if controller else await self.healing.asked(self.healing.active_claims)
        claims = {key: claim for key, claim in claims.items() if claim.executor == name}
        for service in services:
            self.system.kill(service)
        self.killed[label] = self.killed.get(label, 0) + 1
        if "for long" in fault:
            lost = self.healing.watch(fault, self._is_lost(presence, before))
            self._later(kind, name, lost)
        else:
            await asyncio.sleep(self.random.random())
            service = self._start(kind, name)
            self.healing.watch(fault, self._is_back(kind, name, service, claims))
        return len(services)

    @staticmethod
    def _key(kind: str, name: str) -> str:
        """Return the key of its heartbeat."""
        if kind == "controller":
            return f"controller.{key_token(controller_name(name))}"
        return f"agent.{name}"

    def excuse(self) -> Callable[[str], bool]:
        """Return what tells whether a heartbeat may be missing: its process was killed since, or is away."""
        labels = {self._key(kind, name): f"{kind}-{name}" for kind in KINDS for name in self._names(kind)}
        before = dict(self.killed)

        def excused(key: str) -> bool:
            label = labels.get(key, "")
            return self.killed.get(label) != before.get(label) or not self.system.live(label=label)

        return excused

    def _later(self, kind: str, name: str, lost: "asyncio.Task[float]") -> None:
        async def come_back() -> None:
            away_s = AWAY_S + self.random.random() * MORE_S
            await asyncio.wait([asyncio.create_task(asyncio.sleep(away_s)), lost])
            self._start(kind, name)

        task = asyncio.create_task(come_back(), name=f"away: {kind}-{name}")
        self._away.add(task)
        task.add_done_callback(self._away.discard)

    async def back(self) -> None:
        """Wait until all that was to come back is back."""
        while self._away:
            await asyncio.wait(set(self._away))

    def _is_lost(self, presence: str, before: tuple[int, bytes]) -> Sign:
        async def sign() -> bool | None:
            seq, payload = await self.healing.last(presence)
            lost = b'"Lost"' in payload
            if seq == before[0]:
                # It was killed before it was seen to be back, or was never there.
                return None if lost or not seq else False
            return lost

        return sign

    def _is_back(self, kind: str, name: str, service: Service, claims: dict[str, Claim]) -> Sign:
        """It has a heartbeat of the new process, and none of the *claims* of the earlier one is left."""

        async def sign() -> bool | None:
            if not service.alive:
                return None
            pid = await self.healing.beat(self._key(kind, name))
            return pid == service.pid and await self.healing.settled_claims(claims)

        return sign
