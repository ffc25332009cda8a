"""One replica of a service, driven step by step: the machines are production's own.

These are `sluice.log.runtime.replica` and `sluice.log.commit_chain`. What the runner and the writer of
commits await is a
step here: reading, sending a commit, its storage, the answer. Whoever is fenced begins a new life, from a
snapshot or from nothing.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from sluice.events.base import Micros
from sluice.events.commit import Step
from sluice.log.commit_chain import Chain, Send
from sluice.log.contract import Ack, Entry
from sluice.log.decider import Decider
from sluice.log.errors import StaleSequenceError
from sluice.log.fold import Fold
from sluice.log.runtime.hooks import Hooks
from sluice.log.runtime.replica import Fenced
from sluice.log.runtime.replica import Replica as Machine

from .log import SimLog, steps_of

if TYPE_CHECKING:
    from .projecting import Publisher

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
    """A commit that was sent, and the answer to it that is under way."""

    steps: list[Step]
    send: Send
    answered: bool = False
    ack: Ack | None = None
    """None: it was refused."""


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
    nonces: Iterator[int] = field(default_factory=count)


@dataclass(eq=False)
class Replica:
    service: Service
    number: int
    publisher: "Publisher | None" = None
    alive: bool = True
    paused: bool = False
    processes: int = 0
    seeks: bool = False
    """It has the lease and knows where the chain ends, but does not lead yet."""
    cursor: int = 0
    folded: int = 0
    """How many of the entries read it has folded: a stand-by does that when it is to lead."""
    skew: Micros = 0
    """How far its clock is off."""
    flight: Flight | None = None
    unsent: list[Step] = field(default_factory=list)
    """Taken from the machine, to be sent in further messages: a commit can be too large for one."""
    machine: Machine[Any] = field(init=False)
    chain: Chain = field(init=False)
    entries: list[Entry] = field(init=False)
    """What its service reads."""

    def __post_init__(self) -> None:
        self.entries = self.service.entries
        self.start(None)

    @property
    def writer(self) -> str:
        return self.service.writer

    @property
    def state(self) -> Any:
        self._catch_up()
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

    def start(self, snapshot: Snapshot | None) -> None:
        """Begin a process."""
        self.processes += 1
        self.alive = True
        nonces = self.service.nonces
        self.chain = Chain(self.writer, f"{self.number}.{self.processes}", lambda: str(next(nonces)))
        hooks: tuple[Hooks[Any], ...] = ()
        if self.publisher is not None:
            self.publisher.start()
            hooks = (self.publisher,)
        self.machine = Machine(
            self.service.decider(),
            lambda entry: self.chain.sent(entry.header.decode()),
            hooks,
            mark_inputs=MARK_INPUTS,
        )
        self.begin(snapshot)

    def begin(self, snapshot: Snapshot | None) -> None:
        """Begin a life: from a snapshot, or from nothing."""
        self.machine.end()
        decider = self.machine.decider
        self.flight, self.unsent, self.seeks = None, [], False
        self.cursor = 0
        fold: Fold[Any]
        if snapshot is None:
            fold = Fold(decider, decode=steps_of)
        else:
            fold = Fold(decider, decider.load(snapshot.data), snapshot.upto, decode=steps_of)
            fold.at, fold.own = snapshot.at, snapshot.own
            entries = self.service.entries
            while self.cursor < len(entries) and entries[self.cursor].seq <= snapshot.upto:
                self.cursor += 1
        self.folded = self.cursor
        self.machine.begin(fold)

    def crash(self) -> None:
        self.alive = False
        self.machine.end()
        self.flight, self.unsent = None, []

    def take_in(self, most: int) -> int:
        """Read what comes next; return how many entries that were.

        Raises:
            Fenced: another leads.
        """
        entries = self.entries[self.cursor : self.cursor + most]
        self.cursor += len(entries)
        if self.machine.leads:
            self.folded = self.cursor
            if self.machine.hear(entries):
                self.settle()
        return len(entries)

    def _catch_up(self) -> None:
        """Fold what was read as a stand-by. Nobody sees its state before, and many never come to lead."""
        if self.folded < self.cursor:
            self.machine.follow(self.entries[self.folded : self.cursor])
            self.folded = self.cursor

    def seek(self) -> None:
        """Take the lease, and look up where the chain ends."""
        self.service.holder = self
        self.chain.go_on(self.service.log.last(self.writer)[0])
        self.seeks = True

    def lead(self) -> None:
        """Lead from here on, with every commit folded that the chain had when it was looked up."""
        self._catch_up()
        while self.machine.fold.own < self.chain.head:
            self.take_in(1)
            self._catch_up()
        self.seeks = False
        self.machine.lead()
        self.settle()

    def take_over(self) -> None:
        self.seek()
        self.lead()

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
        self.flight = Flight(steps, self.chain.begin())
        return True

    def arrive(self, *, knows: bool = True) -> None:
        """The commit in flight comes to the log, which answers. *knows*: see `SimLog.commit`."""
        flight = self.flight
        assert flight is not None
        (message_id, expected), log = flight.send, self.service.log
        flight.answered, flight.ack = True, None
        with contextlib.suppress(StaleSequenceError):
            flight.ack = log.commit(self.writer, flight.steps, expected, message_id, knows=knows)

    def unanswered(self) -> None:
        """The answer is lost: the same is sent again."""
        assert self.flight is not None
        self.flight.answered = False

    def copy(self) -> Callable[[], None]:
        """Return what lets the commit in flight come to the log whenever it is called."""
        flight, log, writer = self.flight, self.service.log, self.writer
        assert flight is not None

        def arrives() -> None:
            with contextlib.suppress(StaleSequenceError):
                log.commit(writer, flight.steps, flight.send.expected_last, flight.send.message_id)

        return arrives

    def hear(self) -> None:
        """The writer hears the answer, and looks into the log if that does not tell enough.

        Raises:
            Fenced: another leader wrote.
        """
        flight, chain = self.flight, self.chain
        assert flight is not None
        ack = flight.ack
        if ack is None or not chain.acknowledged(ack.seq, duplicate=ack.duplicate):
            try:
                chain.found(flight.send, *self.service.log.last(self.writer))
            except StaleSequenceError as error:
                raise Fenced(str(error)) from None
        self.flight = None
        self.machine.written(chain.head, flight.steps)

    def snapshot(self) -> Snapshot | None:
        """Return what it would store now; only a leader with all its steps in the log does."""
        if not self.idle:
            return None
        fold = self.machine.fold
        return Snapshot(self.machine.decider.dump(fold.state), fold.upto, fold.at, fold.own)


__all__ = ["Fenced", "Replica", "RoundError", "Service", "Snapshot"]
