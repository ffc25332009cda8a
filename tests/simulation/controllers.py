"""Controllers of admission checks: production's own machine (`sluice.sdk.checks._machine`).

What the author's functions answer is drawn, and when: late, never, after their cancellation. A controller
crashes, is replaced by a stand-by once its heartbeat has expired, and takes over from what the log says.
Verdicts of the dead may still be on their way.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.api.core_v1 import Toleration
from sluice.api.kueue import PodSetUpdate
from sluice.events.base import Micros
from sluice.events.checks import CheckInputRejected
from sluice.protocol.checks import CheckRequest
from sluice.protocol.subjects import verdict_suffix
from sluice.sdk.checks import Controller as App
from sluice.sdk.checks import Pending, PreemptionRequired, Ready, Rejected, Retry, Settings
from sluice.sdk.checks import _actions as act
from sluice.sdk.checks._desk import Moment
from sluice.sdk.checks._history import History
from sluice.sdk.checks._machine import Machine
from sluice.sdk.checks._verdict_messages import RefusedError, decode, encode

from . import budget
from .buckets import Watcher
from .choices import Choices, Weights
from .log import SECOND, steps_of
from .swarm import Features

if TYPE_CHECKING:
    from .cell import Cell

TTL: Micros = 5 * SECOND
WHOLE: Micros = 10 * SECOND
"""So long a controller waits for a bucket that is being written anew (`source.WHOLE_S`)."""
NEVER_S = 60.0 * 86_400
"""What is to be looked at after so long, is not looked at any more in a cell that comes to rest."""
ANSWERS = ("Ready", "Retry", "Rejected", "Pending", "PreemptionRequired", "Fails", "Nothing")
_USUAL = Weights((80, 4, 1, 5, 8, 2, 0))
_RARE = Weights((50, 14, 8, 10, 10, 6, 2))
_RETRYING = Weights((30, 50, 3, 5, 8, 2, 2))
"""Several Retries at once."""
_LATER = Weights((70, 20, 10))


def additions(request: CheckRequest, on: Features, choices: Choices) -> tuple[PodSetUpdate, ...]:
    """Return what a check adds to some pod sets: mostly what nobody else does, at times what others deny."""
    found = []
    for pods in request.pod_sets if on.updates and choices.chance(0.7) else ():
        if not choices.chance(0.8):
            continue
        name = "nobody" if choices.chance(0.01) else pods.name
        labels = {f"by-{request.check}": choices.pick(("a", "b", str(request.attempt)))}
        selector: dict[str, str] = {}
        match choices.below(12):
            case 0:
                selector = {"pool": choices.pick(("f0", "f1"))}
            case 1 | 2:
                selector = {"rack": choices.pick(("r0", "r0", "r1"))}
            case 3 | 4:
                labels["team"] = choices.pick(("x", "x", "y"))
        tolerations = [Toleration(key="spot", operator="Exists")] if choices.chance(0.3) else []
        notes = {f"example.com/{request.check}": "yes"} if choices.chance(0.3) else {}
        if on.large and choices.chance(0.1):
            notes["example.com/data"] = "x" * choices.pick((20_000, 70_000))
        found.append(
            PodSetUpdate(
                name=name, labels=labels, annotations=notes, node_selector=selector, tolerations=tolerations
            )
        )
    return tuple(found)


async def _never(_: Any) -> Any:
    raise AssertionError("functions of a simulated controller are not called")


def application(name: str, *, watches: bool, stops: bool) -> App:
    app = App(name, settings=Settings(concurrency=3))
    check = app.check(_never)
    if watches:
        check.watch(every=45)(_never)
    if stops:
        check.on_stop(_never)
    return app


@dataclass(eq=False)
class Term:
    """One time of being the active replica, from the heartbeat that was won to its end."""

    controller: "Controller"
    begins: Micros
    """Not before this: then the heartbeat of a predecessor has expired."""
    machine: Machine = field(init=False)
    watcher: Watcher[CheckRequest] = field(init=False)
    read: dict[str, CheckRequest] | None = None
    """What the bucket had, until the log was read too."""
    begun: bool = False
    calls: dict[int, act.Call] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    publishing: dict[int, act.Publish] = field(default_factory=dict)
    fates: list[act.AskFate] = field(default_factory=list)
    stops: list[act.CallStop] = field(default_factory=list)
    ledger: budget.Term | None = None
    """Of budgets, from when they are asked about."""
    unwhole: Micros = 0
    """Since when the bucket is being written anew, 0: it is whole."""

    def __post_init__(self) -> None:
        self.machine = Machine(self.controller.app)
        self.watcher = Watcher(self.cell.requests)

    @property
    def cell(self) -> "Cell":
        return self.controller.cell

    @property
    def moment(self) -> Moment:
        return Moment(self.cell.now / SECOND, self.cell.now)

    def do(self, actions: list[act.Action]) -> None:
        """Do what the machine says."""
        for action in actions:
            match action:
                case act.Call(number, attempt):
                    if any(call.attempt == attempt for call in self.calls.values()):
                        self.cell.watchman.fail("one-call", f"two calls for {action.request}")
                    self.calls[number] = action
                case act.CancelCall(number):
                    self.cancelled.add(number)
                case act.Publish(number):
                    self.publishing[number] = action
                case act.CancelPublish(number):
                    found = self.publishing.pop(number, None)
                    if found is not None:
                        self.controller.late(found)
                case act.AskFate():
                    self.fates.append(action)
                case act.CallStop():
                    self.stops.append(action)

    # the bucket

    def follow(self, most: int) -> bool:
        """Take over, step by step; then hear what changes."""
        if self.cell.log.now < self.begins:
            return False
        if self.read is not None:
            self._take_over(self.read)
            return True
        if not self.begun or self.watcher.lost:
            return self._read()
        if not self.watcher.behind:
            return False
        if self.cell.gap():
            self._replace(self._everything())
            return True
        for key, request in self.watcher.take(most):
            if self._own(key):
                self.do(self.machine.told(key, request, self.moment))
        return True

    def _own(self, key: str) -> bool:
        return key.startswith(f"{self.controller.name}.")

    def _everything(self) -> dict[str, CheckRequest]:
        found = self.watcher.begin_anew()
        return {key: value for key, value in found if value is not None and self._own(key)}

    def _read(self) -> bool:
        cell = self.cell
        if not cell.requests.whole:
            self.unwhole = self.unwhole or cell.now
            if cell.now - self.unwhole < WHOLE:
                return False
        self.unwhole = 0
        if self.begun:
            self._replace(self._everything())
        else:
            self.read = self._everything()
        return True

    def _take_over(self, requests: dict[str, CheckRequest]) -> None:
        history = History(requests)
        suffix = verdict_suffix(self.controller.name)
        history.add(each for each in self.cell.log.entries if each.suffix == suffix)
        self.begun, self.read = True, None
        for key, request in requests.items():
            self.do(self.machine.told(key, request, self.moment, history.of(key)))

    def _replace(self, requests: dict[str, CheckRequest]) -> None:
        for key in self.machine.keys:
            if key not in requests:
                self.do(self.machine.told(key, None, self.moment))
        for key, request in requests.items():
            self.do(self.machine.told(key, request, self.moment))

    # what functions, log and time do

    def tick(self) -> bool:
        due = self.machine.deadline
        if due is None or due > self.moment.now:
            return False
        self.do(self.machine.tick(self.moment))
        return True

    def ends(self, call: act.Call, end: act.CallEnd) -> None:
        del self.calls[call.call]
        self.cancelled.discard(call.call)
        self.do(self.machine.call_ended(call.call, end, self.moment))

    def publish(self, action: act.Publish) -> None:
        """The log takes a verdict, or has one of this id; unless nobody answers."""
        del self.publishing[action.number]
        cell = self.cell
        lost = cell.unanswered()
        answer: act.Publication = act.Unanswered()
        if lost != "lost":
            found = self.controller.store(action)
            answer = answer if lost else found
        self.do(self.machine.published(action.number, answer, self.moment))

    def fate(self, ask: act.AskFate) -> None:
        self.fates.remove(ask)
        head = self.cell.log.heads.get("checks", 0)
        upto = steps_of(self.cell.log.entries[head - 1])[-1].upto if head else 0
        self.do(self.machine.fate(ask.number, self.moment, unheard=upto >= ask.said.seq > 0))

    def stopped(self, stop: act.CallStop, *, released: bool) -> None:
        self.stops.remove(stop)
        self.do(self.machine.stop_ended(stop.number, self.moment, released=released))

    def calm(self) -> bool:
        """Everything is answered at once, watches wait."""
        found = self.tick()
        for call in list(self.calls.values()):
            if call.call in self.cancelled:
                self.ends(call, act.Cancelled())
                found = True
            elif not call.watching:
                preempt = call.request.preemptions_pending
                answer = PreemptionRequired("", NEVER_S) if preempt else Ready()
                self.ends(call, act.Answered(answer))
                found = True
        for publish in list(self.publishing.values()):
            self.publish(publish)
            found = True
        for ask in list(self.fates):
            self.fate(ask)
            found = True
        for stop in list(self.stops):
            self.stopped(stop, released=True)
            found = True
        return found

    def step(self, choices: Choices) -> bool:
        """One thing happens."""
        things = [*self.calls.values(), *self.publishing.values(), *self.fates, *self.stops]
        due = self.machine.deadline
        if due is None and not things:
            return False
        if due is not None and due <= self.moment.now and (not things or choices.chance(0.7)):
            return self.tick()
        if not things:
            return False
        match choices.pick(things):
            case act.Call() as call:
                return self._answer(call, choices)
            case act.Publish() as publish:
                self.publish(publish)
            case act.AskFate() as ask:
                self.fate(ask)
            case act.CallStop() as stop:
                self.stopped(stop, released=not choices.chance(0.2))
        return True

    def _answer(self, call: act.Call, choices: Choices) -> bool:
        odd = self.cell.on.rare_verdicts
        if call.call in self.cancelled and choices.chance(0.8):
            # A function may take its time, and even answer.
            self.ends(call, act.Cancelled())
            return True
        if self.cell.on.budgets and call.request.check == budget.CHECK and choices.chance(0.8):
            return self._judged(call)
        if call.watching or call.request.state == "Ready":
            if not odd or not choices.chance(0.1):
                return False
            answer = ("Ready", "Retry", "Rejected")[choices.weighted(_LATER)]
        else:
            weights = _RARE if odd else _USUAL
            if self.cell.on.theme == "checks" and choices.chance(0.4):
                weights = _RETRYING
            answer = ANSWERS[choices.weighted(weights)]
        delay_s = choices.pick((0, 1, 30)) if answer in ("Retry", "Pending", "PreemptionRequired") else None
        match answer:
            case "Ready":
                again_s = 20 if odd and choices.chance(0.2) else None
                updates = additions(call.request, self.cell.on, choices)
                self.ends(call, act.Answered(Ready(updates, recheck_after=again_s)))
            case "Retry":
                self.ends(call, act.Answered(Retry(delay_s or None)))
            case "Rejected":
                self.ends(call, act.Answered(Rejected()))
            case "Pending":
                self.ends(call, act.Answered(Pending("wait", delay_s)))
            case "PreemptionRequired":
                self.ends(call, act.Answered(PreemptionRequired("", delay_s)))
            case "Fails":
                self.ends(call, act.Failed("OSError: away"))
            case _:
                self.ends(call, act.Cancelled())
        return True

    def _judged(self, call: act.Call) -> bool:
        """Answer as budgets do."""
        if self.ledger is None:
            self.ledger = budget.Term(self.cell)
        if call.watching or call.request.state == "Ready":
            taken = self.ledger.withdrawal(call.request)
            if taken is None:
                return False
            self.ends(call, act.Answered(taken))
        else:
            waiting = [held.request for held in self.machine.waiting()]
            self.ends(call, act.Answered(self.ledger.answer(call.request, waiting)))
        return True


@dataclass(eq=False)
class Controller:
    cell: "Cell"
    name: str
    alive: bool = True
    since: Micros = -TTL
    """When the last active replica crashed."""
    stored: dict[int, None] = field(default_factory=dict)
    """Sequences of its verdicts."""
    term: Term = field(init=False)

    def __post_init__(self) -> None:
        second = self.name.endswith("b")
        self.app = application(self.name, watches=second, stops=not second)
        self.come()

    @property
    def beating(self) -> bool:
        return (self.alive and self.cell.now >= self.term.begins) or self.cell.now - self.since < TTL

    def leave(self) -> None:
        """The active replica crashes, or loses its heartbeat; nobody stands by."""
        self._end()
        self.alive = False

    def replace(self) -> None:
        """The active replica ends, and another one takes over when the heartbeat has expired."""
        self._end()
        self.come()

    def _end(self) -> None:
        self.since = max(self.since, self.cell.now) if self.cell.now >= self.term.begins else self.since
        self.term.machine.close()
        for publish in self.term.publishing.values():
            self.late(publish)

    def come(self) -> None:
        self.alive = True
        self.term = Term(self, self.since + TTL)

    def follow(self, most: int) -> bool:
        return self.term.follow(most)

    # the log

    def store(self, action: act.Publish) -> act.Publication:
        """Store a verdict unless the log has one of this id; return what it then has."""
        log = self.cell.log
        try:
            payload = self.encoded(action)
        except RefusedError as error:
            return act.Refused(str(error))
        known = log.known(action.ident)
        if not known:
            self.cell.publish(verdict_suffix(self.name), payload, action.ident)
            known = log.end
            self.stored[known] = None
        found = decode(log.entries[known - 1].payload)
        assert found is not None
        return act.Found(known, found[1])

    def encoded(self, action: act.Publish) -> bytes:
        source = f"controller/{self.name}"
        return encode(source, action.ident, self.cell.now, action.verdict, action.recheck_after_s)

    def late(self, action: act.Publish) -> None:
        """Nobody waits for a verdict any more that may be on its way."""
        cell = self.cell
        if cell.on.late_copies and not cell.calm and cell.choices.chance(0.5):
            with suppress(RefusedError):  # it was never sent
                cell.transit.append((verdict_suffix(self.name), self.encoded(action), action.ident))
                cell.stats.fault("late-verdict")

    def odd(self, choices: Choices) -> bool:
        """Say something that means nothing: of an older attempt, or about nobody."""
        requests = [held.request for held in self.term.machine.waiting()]
        if not requests:
            return False
        request = choices.pick(requests)
        data: dict[str, Any] = {"check": request.check, "attempt": request.attempt, "state": "Ready"}
        if choices.chance(0.5):
            data["workload"] = "default/nobody"
        else:
            data["workload"] = f"{request.workload.namespace}/{request.workload.name}"
            data["attempt"] = request.attempt - 1
        self.cell.message(verdict_suffix(self.name), "CheckVerdict", data, source=self.name)
        return True


def _check_taken(cell: "Cell") -> None:
    """What the SDK has published is something that the cell can take."""
    refused = {
        event.cause
        for entry in cell.log.entries
        if entry.suffix == "checks"
        for step in steps_of(entry)
        for event in step.events
        if isinstance(event, CheckInputRejected)
    }
    for controller in cell.controllers:
        for seq in controller.stored:
            if seq in refused:
                cell.watchman.fail(
                    "controllers", f"the cell cannot take what {controller.name} says at {seq}"
                )


def check_settled_controllers(cell: "Cell") -> None:
    """Everything that is asked was answered, and nothing is at work for what is not asked any more."""
    _check_taken(cell)
    for controller in cell.controllers:
        term = controller.term
        asked = {
            key: kept.value
            for key, kept in cell.requests.values.items()
            if key.startswith(f"{controller.name}.")
        }
        if sorted(asked) != sorted(term.machine.keys):
            cell.watchman.fail(
                "controllers", f"{controller.name} holds {term.machine.keys}, not {list(asked)}"
            )
        if term.machine.busy:
            cell.watchman.fail("controllers", f"{controller.name} is still at work")
        held = {each.key: each for each in term.machine.waiting()}
        for key, request in asked.items():
            one = held.get(key)
            if request.state == "Pending" and (one is None or one.said is None):
                cell.watchman.fail("controllers", f"{key}: attempt {request.attempt} is not answered")


__all__ = ["Controller", "Term", "check_settled_controllers"]
