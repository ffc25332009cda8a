"""The checks of one controller without input or output: what is done follows from what is told, and when.

Level-triggered: what is told is how requests are now, and every change leads to `_consider`, which looks at
one request and arranges for what is to be done about it next. A machine lives as long as its process is the
active one: from the heartbeat that was won to the one that is lost, or `stop`.

Every method is told the moment and returns what is to be done, in order. `deadline` says when to call `tick`
although nothing happens.
"""

from collections.abc import Iterable, Iterator

import structlog

from sluice.protocol.checks import CheckRequest

from . import _actions
from ._desk import Desk, Moment
from ._endings import Endings
from ._failures import readable, told
from ._history import Past
from ._metrics import Numbers
from ._registry import Registry
from ._telling import Telling, about
from ._tracked_request import Calling, Held, Lane
from ._verdict_messages import Said, identity, recheck_of
from ._verdicts import Pending, Ready, Verdict

log = structlog.get_logger("sluice.sdk.checks")


class Machine:
    """Decides; calls none of the author's functions, of which *app* only says that they are there."""

    def __init__(self, app: Registry, numbers: Numbers | None = None) -> None:
        self.app, self.settings = app, app.settings
        self.numbers = numbers or Numbers(app.name)
        self._desk = desk = Desk()
        self._telling = Telling(desk, self.numbers, self._consider, self._fail)
        self._endings = Endings(desk, self.settings, self._telling, self._over)
        self._held: dict[str, Held] = {}
        self._calls: dict[int, Calling] = {}
        self._fates: dict[int, tuple[Held, Said]] = {}
        self._checks = Lane(self.settings.concurrency)
        self._watches: dict[tuple[str, str], Lane] = {}
        self._stopping = False

    @property
    def deadline(self) -> float | None:
        """When to call `tick`; None: not before anything else happens."""
        return None if self._desk.closed else self._desk.alarms.deadline

    @property
    def busy(self) -> bool:
        """Is anything at work but watches?"""
        return (
            self._telling.busy
            or self._endings.busy
            or any(not call.watching or call.cancelled for call in self._calls.values())
        )

    @property
    def keys(self) -> list[str]:
        """Keys of all requests that there are."""
        return list(self._held)

    # what it is told

    def told(
        self, key: str, request: CheckRequest | None, moment: Moment, past: Past | None = None
    ) -> list[_actions.Action]:
        """How one request is now; None: it is withdrawn. *past*: what the log has of it, on taking over."""
        self._desk.at(moment)
        held = self._held.get(key)
        if request is None:
            if held is not None:
                del self._held[key]
                self._retire(held)
        elif held is None:
            self._begin(key, request, past)
        elif identity(held.request) != identity(request):
            self._retire(held)
            self._begin(key, request, past)
        else:
            self._change(held, request)
        return self._turn()

    def call_ended(self, call: int, end: _actions.CallEnd, moment: Moment) -> list[_actions.Action]:
        """How `Call(call, ...)` has ended."""
        self._desk.at(moment)
        calling = self._calls.pop(call, None)
        if calling is not None:
            # The place is for the function: publishing what it said takes none.
            calling.lane.done()
            self._start()
            self._call_ended(calling, end)
        return self._turn()

    def published(self, number: int, answer: _actions.Publication, moment: Moment) -> list[_actions.Action]:
        """What became of `Publish(number, ...)`."""
        self._desk.at(moment)
        self._telling.published(number, answer)
        return self._turn()

    def fate(self, number: int, moment: Moment, *, unheard: bool, why: str = "") -> list[_actions.Action]:
        """The answer to `AskFate(number, ...)`: *unheard* if the service passed over the verdict.

        *why*: what the service has said against it, if that can be found; then the call has failed.
        """
        self._desk.at(moment)
        held, said = self._fates.pop(number, (None, None))
        if held is not None and held.said is said and said is not None:
            if unheard and (why or self._desk.now >= held.overdue):
                log.warning(
                    "verdict had no effect, performing the check again",
                    request=held.key,
                    seq=said.seq,
                    why=why or "not known",
                )
                held.said, held.due = None, self._desk.now
                if why:
                    self._fail(held, f"the cell did not take its verdict: {why}")
                    return self._turn()
            self._consider(held)
        return self._turn()

    def stop_ended(self, number: int, moment: Moment, *, released: bool) -> list[_actions.Action]:
        """`CallStop(number, ...)` has ended; it failed if not *released*."""
        self._desk.at(moment)
        self._endings.stop_ended(number, released=released)
        return self._turn()

    def waiting(self) -> Iterator[Held]:
        """Yield what can be asked again: what waits or is watched."""
        for held in list(self._held.values()):
            if held.next() != "settle":
                yield held

    def recheck(self, attempts: Iterable[Held], moment: Moment) -> list[_actions.Action]:
        """Ask again now about some of `waiting`."""
        self._desk.at(moment)
        for held in attempts:
            held.due, held.changed = self._desk.now, True
            self._consider(held)
        return self._turn()

    def tick(self, moment: Moment) -> list[_actions.Action]:
        """It is `deadline`, or later."""
        self._desk.at(moment)
        self._desk.alarms.ring(self._desk.now)
        return self._turn()

    def stop(self, moment: Moment) -> list[_actions.Action]:
        """Begin nothing more; what is at work may finish until `close`."""
        self._desk.at(moment)
        self._stopping = True
        for held in self._held.values():
            self._disarm(held)
        return self._turn()

    def close(self) -> None:
        """The end, as after a crash: nothing is done any more, and nothing heard."""
        self._stopping = True
        self._desk.close()

    def _turn(self) -> list[_actions.Action]:
        if self._desk.closed:
            return []
        lanes = (self._checks, *self._watches.values())
        numbers = self.numbers
        numbers.requests = len(self._held)
        numbers.queued = sum(lane.waiting for lane in lanes)
        numbers.running = sum(lane.taken for lane in lanes)
        return self._desk.take()

    # what there is

    def _begin(self, key: str, request: CheckRequest, past: Past | None) -> None:
        kind = request.parameters.kind if request.parameters is not None else ""
        held = Held(self._desk.number(), key, request, self.app.find(request.check, kind))
        self._held[key] = held
        if past is not None and past.said is not None:
            held.verdicts, held.said = past.number, past.said
        self._set_due(held)
        self._consider(held)

    def _set_due(self, held: Held) -> None:
        """Arrange for the next call after a restart, or a change of state that the service made."""
        desk, said = self._desk, held.said
        matching = said is not None and said.state == held.request.state
        if matching and said is not None and said.recheck_after_s is not None:
            since_s = (desk.wall - said.at) / 1_000_000
            held.due = desk.now + max(0.0, said.recheck_after_s - max(0.0, since_s))
        elif held.request.state == "Pending" or held.next() == "watch":
            held.due = desk.now
        else:
            held.due = None

    def _change(self, held: Held, request: CheckRequest) -> None:
        """Take in what changed about an attempt."""
        before, held.request = held.request, request
        self._desk.do(_actions.Change(held.number, request))
        if before.state != request.state:
            held.failures = 0
            self._disarm(held)
            if held.said is not None and held.said.state != request.state:
                # Somebody else's doing: a person has approved it, or taken an approval back.
                held.said = None
            self._set_due(held)
            if isinstance(held.work, Calling):
                # What is being found out has been decided.
                held.work.cancelled = True
                self._desk.do(_actions.CancelCall(held.work.number))
                return
        elif _content(before) == _content(request):
            return
        elif held.due is not None:
            held.due = self._desk.now
        held.changed = True
        self._consider(held)

    def _retire(self, held: Held) -> None:
        self._disarm(held)
        self._desk.do(_actions.Withdraw(held.number))
        self._endings.begin(held)

    def _over(self, key: str) -> None:
        successor = self._held.get(key)
        if successor is not None:
            self._consider(successor)

    # what to do

    def _consider(self, held: Held) -> None:
        """Arrange for what is to be done next about a request."""
        if self._stopping or held.work is not None or held.key in self._endings:
            return
        if self._held.get(held.key) is not held:
            return
        desk, what = self._desk, held.next()
        if what == "settle":
            self._disarm(held)
            held.alarm = desk.alarms.set(self._ask_at(held), lambda: self._settle(held))
        elif not what or held.due is None:
            self._disarm(held)
        elif held.due > desk.now:
            self._disarm(held)
            held.alarm = desk.alarms.set(held.due, lambda: self._consider(held))
        elif held.lane is None:
            self._disarm(held)
            self._lane(held, watching=what == "watch").enter(held)
            self._start()

    def _disarm(self, held: Held) -> None:
        """Take back that something happens by itself."""
        if held.alarm is not None:
            self._desk.alarms.cancel(held.alarm)
            held.alarm = None
        if held.lane is not None:
            held.lane.leave(held)

    def _lane(self, held: Held, *, watching: bool) -> Lane:
        check = held.check
        if not watching or check is None:
            return self._checks
        return self._watches.setdefault((check.name, check.kind), Lane(check.watch_concurrency))

    def _start(self) -> None:
        for lane in (self._checks, *self._watches.values()):
            while (held := lane.next()) is not None:
                self._call(held, lane)

    def _ask_at(self, held: Held) -> float:
        """Return when to ask what became of the last verdict: after 1, 2, 4 ... s, and when it is overdue.

        What was said against it is found soon. That it has no effect counts only when it is overdue: the
        bucket may be behind the log.
        """
        now, overdue_s = self._desk.now, self.settings.overdue_s
        if held.settling is not held.said:
            held.settling, held.asked, held.overdue = held.said, 0, now + overdue_s
        if now >= held.overdue:
            return now + overdue_s
        return min(held.overdue, now + 2.0**held.asked)

    def _settle(self, held: Held) -> None:
        """Find out what became of a verdict that shows no effect."""
        said = held.said
        if said is not None and held.next() == "settle":
            number = self._desk.number()
            self._fates[number] = held, said
            held.asked += 1
            self._desk.do(_actions.AskFate(number, held.key, said))

    # calling

    def _call(self, held: Held, lane: Lane) -> None:
        watching = held.next() == "watch"
        held.changed = False
        call = held.work = Calling(self._desk.number(), held, lane, watching)
        self._calls[call.number] = call
        limit_s = None if watching else self.settings.timeout_s
        if limit_s is not None:
            call.alarm = self._desk.later(limit_s, lambda: self._time_out(call))
        self._desk.do(_actions.Call(call.number, held.number, held.request, watching, held.failures))

    def _time_out(self, call: Calling) -> None:
        call.timed_out = call.cancelled = True
        self._desk.do(_actions.CancelCall(call.number))

    def _call_ended(self, call: Calling, end: _actions.CallEnd) -> None:
        held = call.held
        held.work = None
        if call.alarm is not None:
            self._desk.alarms.cancel(call.alarm)
        current = self._held.get(held.key) is held
        if isinstance(end, _actions.Cancelled):
            if current and call.timed_out:
                self.numbers.timeouts += 1
                end = _actions.Failed(f"TimeoutError: no answer within {self.settings.timeout_s:g} s")
            elif not call.cancelled:
                # Nobody here has asked for it: something inside was cancelled.
                end = _actions.Failed("CancelledError: what it waited for was cancelled")
            else:
                self.numbers.cancelled += 1
        if not current:
            self._endings.call_ended(held)
        elif isinstance(end, _actions.Answered):
            try:
                self._conclude(held, end.verdict)
            except Exception as error:
                # Whatever is wrong with an answer, its request is not to be lost.
                if held.work is not None:
                    raise
                log.exception("an answer cannot be taken", **about(held))
                self._fail(held, told(error))
        elif isinstance(end, _actions.Failed):
            self._fail(held, end.what)
        else:
            self._consider(held)

    # answering

    def _conclude(self, held: Held, answer: Verdict | None) -> None:
        """Say what came of a call, if it is anything new, and arrange for the next one."""
        after_s = self._next_call(held, answer)
        held.due = None if after_s is None else self._desk.now + after_s
        if held.changed and held.due is not None:
            held.due = self._desk.now
        if answer is None:
            held.failures = 0
            self._consider(held)
        else:
            # It has come to nothing if the log refuses it: `failures` ends when the log has it.
            self._telling.say(held, answer, after_s)

    def _next_call(self, held: Held, answer: Verdict | None) -> float | None:
        """Return in how many seconds to call again, None for never."""
        after_s = None if answer is None else recheck_of(answer)
        if after_s is not None:
            return after_s
        if held.next() == "watch" and (answer is None or isinstance(answer, Ready)):
            return held.check.watch_every_s if held.check is not None else None
        return None if isinstance(answer, Ready) else self.settings.recheck_s

    def _fail(self, held: Held, what: str) -> None:
        """Show that a call failed, and try again later: later and later."""
        what = readable(what)
        self.numbers.failures += 1
        held.failures += 1
        settings = self.settings
        after_s = min(settings.backoff_most_s, settings.backoff_s * 2.0 ** min(held.failures - 1, 30))
        held.due = self._desk.now + after_s
        log.warning("trying again", error=what, seconds=after_s, failures=held.failures, **about(held))
        if held.request.state == "Pending":
            answer = Pending(f"The check failed and is tried again: {what}")
            self._telling.say(held, answer, after_s, of_failure=True)
        else:
            # An approval stays while it cannot be looked at.
            self._consider(held)


def _content(request: CheckRequest) -> tuple[object, ...]:
    """Return what may make a difference to a check."""
    return (
        request.preemptions_pending,
        request.parameters,
        request.parameters_spec,
        request.pod_sets,
        request.assignment,
        request.workload,
    )
