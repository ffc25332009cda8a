"""The one world of the tests: a log in memory, deciders that read it at their pace, whom the test plays.

class Bank(World):
    def __post_init__(self) -> None:
        self.serve(Scheduler())

`message`, `tell`, `apply` say what comes from outside; `step` lets one service catch up (or not quite) and
decide; `settle` lets all of them, until nobody has anything to say; `verify` decides the whole log again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from sluice.core.decision_loop import settle
from sluice.core.scheduler.invariants import reservation_violations, violations
from sluice.core.slices.dispatch import dispatch_entry
from sluice.events.base import Event, JobKey, Micros
from sluice.events.catalogue import writer_of
from sluice.events.codec import decode_commit, encode_commit, encode_message
from sluice.events.commit import Step
from sluice.events.config import ObjectDeleted
from sluice.events.envelope import Message
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import replay
from sluice.protocol.dispatch import DispatchEntry
from sluice.protocol.subjects import matches_any, presence_suffix

from .log_check import wrong_with
from .objects import applied, defaulted, kueue_object
from .verify import entries_for, verify

START: Micros = 1_767_225_600_000_000
SECOND = 1_000_000
TICK: Micros = 1000
"""What passes between two looks at the log."""


@dataclass
class Service:
    """A decider, its state, and how far it has read."""

    decider: Decider[Any]
    state: Any
    seen: int = 0
    """Position in the log up to which it has folded."""
    upto: int = 0

    def fold(self, log: Sequence[Entry], most: int | None = None) -> None:
        """Fold at most so many more entries."""
        end = len(log) if most is None else min(len(log), self.seen + most)
        for entry in log[self.seen : end]:
            if not matches_any(self.decider.reads, entry.suffix):
                continue
            self.upto = entry.seq
            if "." in entry.suffix:
                event = Message(subject=entry.suffix, payload=entry.payload)
                self.decider.apply(self.state, event, entry.seq, entry.at)
            else:
                for step in decode_commit(entry.payload).steps:
                    for one in step.events:
                        self.decider.apply(self.state, one, entry.seq, step.at)
        self.seen = end

    def restart(self) -> None:
        """Kill it: its successor begins with the snapshot."""
        self.state = self.decider.load(self.decider.dump(self.state))


@dataclass
class World:
    log: list[Entry] = field(default_factory=list)
    now: Micros = START
    services: dict[str, Service] = field(default_factory=dict)
    ids: int = 0
    history: list[tuple[int, str, Event]] = field(default_factory=list)
    """(seq, writer, event) of all commits, in order."""

    def serve(self, *deciders: Decider[Any]) -> None:
        for decider in deciders:
            self.services[decider.writer] = Service(decider, decider.initial())

    # The log

    def append(self, suffix: str, payload: bytes) -> int:
        self.log.append(Entry(len(self.log) + 1, suffix, self.now, payload))
        return len(self.log)

    def commit(self, writer: str, steps: Sequence[Step]) -> int:
        payload = encode_commit("main", writer, f"{writer}-{len(self.log)}", steps)
        seq = self.append(writer, payload)
        self.history += [(seq, writer, event) for step in steps for event in step.events]
        return seq

    def tell(self, writer: str, *events: Event) -> Self:
        """Commit events of a service that the test plays, in one step."""
        self.commit(writer, [Step(upto=len(self.log), at=self.now, events=events)])
        return self

    def apply(self, *manifests: Mapping[str, Any]) -> Self:
        """Apply configuration, defaulted as the api service does."""
        self.tell("config", *(applied(defaulted(manifest)) for manifest in manifests))
        return self

    def configure(
        self,
        kind: str,
        name: str,
        spec: Mapping[str, Any] | None = None,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Self:
        manifest = kueue_object(kind, name, spec, namespace=namespace)
        manifest["metadata"] |= {"labels": labels} if labels else {}
        return self.apply(manifest)

    def delete(self, kind: str, name: str, namespace: str = "") -> Self:
        """Delete configuration, whoever uses it."""
        self.tell("config", ObjectDeleted(cause=0, kind=kind, name=name, namespace=namespace))
        return self

    def message(self, subject: str, event_type: str, data: Any, message_id: str = "") -> Self:
        """Let a message come in; *subject* may be the name of a job."""
        subject = subject if "." in subject else f"job.default.{subject}"
        self.ids += 1
        payload = encode_message(
            message_id=message_id or f"m{self.ids}",
            source="test",
            event_type=event_type,
            subject=subject,
            at=self.now,
            data=data,
        )
        self.append(subject, payload)
        return self

    def presence(self, controller: str, *, there: bool = True) -> Self:
        self.message(presence_suffix("controller", controller), "Seen" if there else "Lost", {})
        return self

    # Services

    def step(self, writer: str, entries: int | None = None) -> list[Event]:
        """Let a service fold at most *entries* more entries and decide; return what it says."""
        service = self.services[writer]
        service.fold(self.log, entries)
        steps = self.decide(service)
        if steps:
            self.commit(writer, steps)
        return [event for step in steps for event in step.events]

    def decide(self, service: Service) -> list[Step]:
        """Decide until nothing follows, and check the scheduler on the way: people can stop at each step."""
        return list(self.steps_of(service))

    def steps_of(self, service: Service) -> Iterator[Step]:
        decider, state = service.decider, service.state
        schedules = decider.writer == "scheduler"

        def checked(event: Event) -> None:
            if schedules:
                assert not reservation_violations(state, event)
                self.check_decided(state, event)

        for step in settle(decider, state, service.upto, self.now, most=500, folded=checked):
            self.check_step()
            assert not schedules or not (wrong := violations(state)), wrong
            yield step

    def check_decided(self, state: Any, event: Event) -> None:
        """Hold what must be true after each *event* of the scheduler."""

    def check_step(self) -> None:
        """Hold what must be true after each step of any service."""

    def settle(self, seconds: float = 0) -> list[Event]:
        """Let time pass, then all catch up until nobody has anything to say; return what was said."""
        self.now += int(seconds * SECOND) + TICK
        found: list[Event] = []
        for _ in range(200):
            self.now += TICK
            said = [event for writer in self.services for event in self.step(writer)]
            found += said
            if not said and all(service.seen == len(self.log) for service in self.services.values()):
                return found
        raise AssertionError("the cell does not settle")

    def run_until(self, seconds: float) -> None:
        """Let time pass, waking services at their deadlines."""
        end = self.now + int(seconds * SECOND)
        for _ in range(200):
            times = [s.decider.deadline(s.state) for s in self.services.values()]
            moment = min((t for t in times if t is not None and t <= end), default=None)
            if moment is None:
                break
            self.now = max(self.now, moment)
            self.settle()
        self.now = max(self.now, end)
        self.settle()

    # Executors

    def dispatch(self, name: str) -> DispatchEntry | None:
        """Return what the executors are told of a job."""
        return dispatch_entry(self.services["slices"].state, JobKey(f"default/{name}"))

    def report(self, name: str, kind: str, **data: Any) -> Self:
        """Let an executor say something: of the attempt that is dispatched now, unless *data* names one."""
        entry = self.dispatch(name)
        self.message(name, kind, {"attempt": entry.attempt if entry is not None else None, **data})
        return self

    def obey(self) -> bool:
        """Let executors stop what is to stop; return whether anything was."""
        names = [key.partition("/")[2] for key in self.services["slices"].state.jobs]
        told = [name for name in names if (entry := self.dispatch(name)) is not None and entry.stop]
        for name in told:
            self.report(name, "JobStopped")
        return bool(told)

    def settle_all(self, seconds: float = 0) -> None:
        """Settle, executors included."""
        self.settle(seconds)
        for _ in range(50):
            if not self.obey():
                return
            self.settle()
        raise AssertionError("jobs stop for ever")

    # What must hold

    def dated(self) -> list[tuple[Event, int, Micros]]:
        """Return all events of commits with their sequences and times."""
        return [(event, seq, self.log[seq - 1].at) for seq, _, event in self.history]

    def events[E: Event](self, *kinds: type[E]) -> list[E]:
        return [event for _, _, event in self.history if isinstance(event, kinds)]

    def verify(self) -> None:
        """Decide the log again: every decider says the same (law 6), and a snapshot goes on as it was."""
        for service in self.services.values():
            decider = type(service.decider)()
            entries = list(entries_for(decider, self.log))
            verdict = verify(decider, entries)
            assert verdict.divergence is None, str(verdict.divergence)
            own = [entry.payload for entry in self.log if entry.suffix == decider.writer]
            assert verdict.steps == sum(len(decode_commit(payload).steps) for payload in own)
            data = decider.dump(verdict.fold.state)
            assert decider.dump(decider.load(data)) == data
            assert decider.dump(replay(decider, entries).state) == data, "as a stand-by folds it"
            if service.seen == len(self.log):
                assert decider.dump(service.state) == data, decider.writer
        if {"slices", "scheduler"} <= self.services.keys():
            # What the test plays of these two need not hold together.
            assert not (wrong := wrong_with(self.log, writers=tuple(self.services))), wrong


class Alone(World):
    """One decider, its neighbours played by the test: what comes in is folded at once."""

    @property
    def service(self) -> Service:
        [service] = self.services.values()
        return service

    @property
    def state(self) -> Any:
        return self.service.state

    @property
    def seq(self) -> int:
        """Return the sequence of the last message that it has folded."""
        return self.service.upto

    def deadline(self) -> Micros | None:
        """Return when it wakes by itself."""
        return self.service.decider.deadline(self.state)

    def append(self, suffix: str, payload: bytes) -> int:
        seq = super().append(suffix, payload)
        if suffix != self.service.decider.writer:
            self.service.fold(self.log)
            assert self.seq == seq, f"{suffix} is not read"
        return seq

    def put(self, *events: Event) -> Self:
        """Let other services say something, or have the decider itself said it, and decide nothing yet."""
        for event in events:
            self.tell(writer := writer_of(type(event)), event)
            if writer == self.service.decider.writer:
                self.service.decider.apply(self.state, event, self.seq, self.now)
        return self

    def settle(self, seconds: float = 0) -> list[Event]:
        """Decide until nothing follows; return all events."""
        self.now += int(seconds * SECOND)
        return self.step(self.service.decider.writer)

    def decide_once(self) -> list[Event]:
        """Take one step."""
        step = next(self.steps_of(self.service), None)
        if step is None:
            return []
        self.commit(self.service.decider.writer, [step])
        return list(step.events)

    def restart(self) -> None:
        """Go on with the snapshot, which comes out of its successor as it went in."""
        before = self.service.decider.dump(self.state)
        self.service.restart()
        assert self.service.decider.dump(self.state) == before
