"""One replica of a service, driven step by step: the machine is production's own (`sluice.log.replica`).

What the runner awaits is a step here: reading, sending a commit, its storage, its acknowledgement. Whoever is
fenced begins a new life, from a snapshot or from nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sluice.events.base import Micros
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.hooks import Hooks
from sluice.log.replica import Fenced
from sluice.log.replica import Replica as Machine

from .log import SimFold, SimLog, Stale

ROUNDS = 1000
"""Decisions in a row after which a decider is taken to go round in circles."""

MARK_INPUTS = 40


class RoundError(Exception):
    """A decider finds something to decide for ever."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    data: bytes
    upto: int
    at: Micros
    own: int


@dataclass(slots=True)
class Flight:
    """A commit that was sent; `seq` once it is stored, 0 before."""

    steps: list[Step]
    expected: int
    message_id: str
    seq: int = 0


@dataclass
class Service:
    """What the replicas of one service share: its log, its lease, its snapshots."""

    decider: Callable[[], Decider[Any]]
    log: SimLog
    writer: str
    entries: list[Entry] = field(default_factory=list)
    """What it reads, own commits included."""
    holder: "Replica | None" = None
    """Who has the lease."""
    snapshots: list[Snapshot] = field(default_factory=list)
    replicas: list["Replica"] = field(default_factory=list)


@dataclass(eq=False)
class Replica:
    service: Service
    number: int
    hooks: tuple[Hooks[Any], ...] = ()
    alive: bool = True
    paused: bool = False
    lives: int = 0
    cursor: int = 0
    skew: Micros = 0
    """How far its clock is off."""
    head: int = 0
    flight: Flight | None = None
    unsent: list[Step] = field(default_factory=list)
    """Taken from the machine, to be sent in further messages: a commit can be too large for one."""
    machine: Machine[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.begin(None)

    @property
    def writer(self) -> str:
        return self.service.writer

    @property
    def state(self) -> Any:
        return self.machine.fold.state

    @property
    def leading(self) -> bool:
        return self.machine.leads

    @property
    def able(self) -> bool:
        return self.alive and not self.paused

    @property
    def now(self) -> Micros:
        return self.service.log.now + self.skew

    @property
    def busy(self) -> bool:
        """Has it something to commit?"""
        return self.flight is not None or bool(self.unsent) or bool(self.machine.pending)

    @property
    def idle(self) -> bool:
        """Has it said all that it has to say?"""
        return self.machine.idle and not self.unsent

    # life

    def begin(self, snapshot: Snapshot | None) -> None:
        """Begin a life: from a snapshot, or from nothing."""
        self.lives += 1
        decider = self.service.decider()
        mine = f"-{self.number}.{self.lives}".encode()
        self._mine = mine.decode()
        self.machine = Machine(
            decider, lambda entry: entry.header.endswith(mine), self.hooks, mark_inputs=MARK_INPUTS
        )
        self.flight, self.unsent = None, []
        self.cursor = 0
        fold: SimFold[Any]
        if snapshot is None:
            fold = SimFold(decider)
        else:
            fold = SimFold(decider, decider.load(snapshot.data), snapshot.upto)
            fold.at, fold.own = snapshot.at, snapshot.own
            entries = self.service.entries
            while self.cursor < len(entries) and entries[self.cursor].seq <= snapshot.upto:
                self.cursor += 1
        self.machine.begin(fold)

    def crash(self) -> None:
        self.alive = False
        self.machine.end()
        self.flight, self.unsent = None, []

    def take_in(self, most: int) -> int:
        """Fold what comes next; return how many entries that were.

        Raises:
            Fenced: another leads.
        """
        entries = self.service.entries[self.cursor : self.cursor + most]
        self.cursor += len(entries)
        if not self.machine.leads:
            self.machine.follow(entries)
        elif self.machine.hear(entries):
            self.settle()
        return len(entries)

    def take_over(self) -> None:
        """Lead from here on, with every commit of the chain folded."""
        self.head = self.service.log.heads.get(self.writer, 0)
        while self.machine.fold.own < self.head:
            self.take_in(1)
        self.service.holder = self
        self.machine.lead()
        self.settle()

    def settle(self) -> None:
        """Decide until there is nothing more to decide."""
        decide, now = self.machine.decide, self.now
        for _ in range(ROUNDS):
            if decide(now) is None:
                return
        last = [type(event).__name__ for step in self.machine.pending[-4:] for event in step.events]
        raise RoundError(f"{self.writer} does not settle, last {last}")

    # committing

    def send(self, most: int) -> bool:
        """Send the next commit, of *most* steps; it may or may not arrive: see `arrive`."""
        if self.flight is not None:
            return False
        steps = self.unsent or self.machine.take()
        if not steps:
            return False
        steps, self.unsent = steps[:most], steps[most:]
        self.flight = Flight(steps, self.head, f"{self.writer}-{self.head}{self._mine}")
        return True

    def arrive(self) -> None:
        """The commit in flight is stored, or refused.

        Raises:
            Fenced: another leader wrote.
        """
        flight = self.flight
        assert flight is not None
        if flight.seq:
            return
        try:
            flight.seq = self.service.log.commit(
                self.writer, flight.steps, flight.expected, flight.message_id
            )
        except Stale as error:
            raise Fenced(str(error)) from None

    def acknowledge(self) -> None:
        """The writer hears that its commit is stored."""
        flight = self.flight
        assert flight is not None
        self.flight = None
        self.head = flight.seq
        self.machine.written(flight.seq, flight.steps)

    def snapshot(self) -> Snapshot | None:
        """Return what it would store now; only a leader with all its steps in the log does."""
        if not self.idle:
            return None
        fold = self.machine.fold
        return Snapshot(self.machine.decider.dump(fold.state), fold.upto, fold.at, fold.own)


__all__ = ["Fenced", "Replica", "RoundError", "Service", "Snapshot"]
