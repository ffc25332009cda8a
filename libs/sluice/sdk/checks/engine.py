"""The engine: from requests as they stand in the bucket to calls of the author's functions, and to verdicts.

Knows nothing of NATS: requests are told to it, verdicts leave through `send`, time comes from a clock. Level-
triggered: what is told is how things are now, and every change leads to `_consider`, which looks at one
request and arranges for what is to be done about it next.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from sluice.events.check_protocol import CheckRequest, CheckVerdict

from .clock import Clock
from .controller import Check, Controller, call
from .held import Held, Lane
from .history import Past
from .numbers import Numbers
from .request import ParametersError, Request, decode_parameters
from .said import FINAL, RefusedError, Said, Stored, identity, message_id, recheck_of, to_verdict
from .verdicts import Pending, Ready, Verdict, VerdictError, checked

log = structlog.get_logger("sluice.sdk.checks")

Send = Callable[[str, CheckVerdict, float | None], Awaitable[Stored]]
"""Publish a verdict under an id; returns what the log then holds under it. Raises RefusedError."""
Unheard = Callable[[str, Said], Awaitable[bool]]
"""Tells whether the service has looked at a verdict, and the request still stands as it did."""

STOP_ATTEMPTS = 5
TURN = 200
"""Requests taken in before others have their turn, the heartbeat first of all."""


class Engine:
    """Performs the checks of one controller, while its process is the active one."""

    def __init__(
        self, app: Controller, clock: Clock, send: Send, unheard: Unheard, numbers: Numbers | None = None
    ) -> None:
        self.app, self.settings, self.clock = app, app.settings, clock
        self.numbers = numbers or Numbers(app.name)
        self._send, self._unheard = send, unheard
        self._held: dict[str, Held] = {}
        self._retiring: dict[str, asyncio.Task[None]] = {}
        self._settling: set[asyncio.Task[None]] = set()
        self._checks = Lane(self.settings.concurrency)
        self._watches: dict[int, Lane] = {}
        self._stopping = False

    # what there is

    async def replace(
        self, requests: Mapping[str, CheckRequest], past: Callable[[str], Past] | None = None
    ) -> None:
        """Tell all requests that there are. *past*: what the log says of each, on becoming active."""
        for key in [key for key in self._held if key not in requests]:
            self.update(key, None)
        for number, (key, request) in enumerate(requests.items()):
            self.update(key, request, past(key) if past is not None else None)
            if number % TURN == TURN - 1:
                await asyncio.sleep(0)

    def update(self, key: str, request: CheckRequest | None, past: Past | None = None) -> None:
        """Tell how one request is now; None: it is withdrawn."""
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
        self.numbers.requests = len(self._held)

    def _begin(self, key: str, request: CheckRequest, past: Past | None) -> None:
        kind = request.parameters.kind if request.parameters is not None else ""
        held = Held(key, request, self.app.find(request.check, kind))
        self._held[key] = held
        if past is not None and past.said is not None:
            held.number, held.said = past.number, past.said
        self._set_due(held)
        self._consider(held)

    def _set_due(self, held: Held) -> None:
        """Arrange for the next call after a restart, or a change of state that the service made."""
        now, said = self.clock.now(), held.said
        matching = said is not None and said.state == held.request.state
        if matching and said is not None and said.recheck_after_s is not None:
            since_s = (self.clock.wall() - said.at) / 1_000_000
            held.due = now + max(0.0, said.recheck_after_s - max(0.0, since_s))
        elif held.request.state == "Pending" or held.action() == "watch":
            held.due = now
        else:
            held.due = None

    def _change(self, held: Held, request: CheckRequest) -> None:
        """Take in what changed about an attempt."""
        before, held.request = held.request, request
        if held.given is not None:
            held.given.raw = request
        if before.state != request.state:
            held.failures = 0
            held.disarm()
            if held.said is not None and held.said.state != request.state:
                # Somebody else's doing: a person has approved it, or taken an approval back.
                held.said = None
            self._set_due(held)
            if held.task is not None and not held.sending:
                # What is being found out has been decided.
                held.task.cancel()
                return
        elif _content(before) == _content(request):
            return
        elif held.due is not None:
            held.due = self.clock.now()
        held.changed = True
        self._consider(held)

    def recheck(self, select: Callable[[Request[Any]], bool]) -> int:
        """Ask again now about what waits or is watched; returns how many requests that concerns."""
        count = 0
        for held in list(self._held.values()):
            if held.given is None and self._give(held) is None:
                continue
            assert held.given is not None
            if held.action() != "settle" and select(held.given):
                count += 1
                held.due, held.changed = self.clock.now(), True
                self._consider(held)
        return count

    # what to do

    def _consider(self, held: Held) -> None:
        """Arrange for what is to be done next about a request."""
        if self._stopping or held.task is not None or held.key in self._retiring:
            return
        if self._held.get(held.key) is not held:
            return
        action = held.action()
        if action == "settle":
            assert held.said is not None
            held.disarm()
            self._call_at(held, self.clock.now() + self.settings.overdue_s, self._settle)
        elif not action or held.due is None:
            held.disarm()
        elif held.due > self.clock.now():
            held.disarm()
            self._call_at(held, held.due, self._consider)
        elif held.lane is None:
            held.disarm()
            self._lane(held, action == "watch").enter(held)
            self._start()

    def _call_at(self, held: Held, when: float, function: Callable[[Held], None]) -> None:
        def due() -> None:
            held.timer = None
            function(held)

        held.timer = self.clock.call_at(when, due)

    def _lane(self, held: Held, watching: bool) -> Lane:
        if not watching or held.check is None:
            return self._checks
        return self._watches.setdefault(id(held.check), Lane(held.check.watch_concurrency))

    def _start(self) -> None:
        for lane in (self._checks, *self._watches.values()):
            while (held := lane.next()) is not None:
                held.changed = False
                held.task = asyncio.create_task(self._run(held, lane), name=held.key)
        self._count()

    def _count(self) -> None:
        lanes = (self._checks, *self._watches.values())
        self.numbers.queued = sum(lane.waiting for lane in lanes)
        self.numbers.running = sum(lane.taken for lane in lanes)

    async def _run(self, held: Held, lane: Lane) -> None:
        """One call and its verdict; then whatever is next."""
        request = held.request
        structlog.contextvars.bind_contextvars(
            workload=f"{request.workload.namespace}/{request.workload.name}",
            check=request.check,
            attempt=request.attempt,
        )
        try:
            try:
                answer = await self._call(held)
            finally:
                # The place is for the function: publishing what it said takes none.
                lane.done()
                self._start()
            if self._held.get(held.key) is held:
                await self._conclude(held, answer)
        except asyncio.CancelledError:
            self.numbers.cancelled += 1
            if self._held.get(held.key) is not held:
                raise
        finally:
            held.task, held.sending = None, False
            self._consider(held)

    # calling

    def _give(self, held: Held) -> Request[Any] | None:
        """Make the author's request; None if the parameters do not fit (see `_call`)."""
        if held.given is None and held.check is not None:
            with contextlib.suppress(ParametersError):
                held.given = self._made(held, held.check)
        return held.given

    def _made(self, held: Held, check: Check) -> Request[Any]:
        return Request(held.request, decode_parameters(held.request.parameters_spec, check.parameters))

    async def _call(self, held: Held) -> Verdict | Exception | None:
        """Call the function that is due; what it raised is returned."""
        check, began = held.check, self.clock.now()
        if check is None:
            return LookupError(
                f"controller {self.app.name!r} has no function for check {held.request.check!r}"
            )
        watching = held.action() == "watch"
        try:
            fresh = self._made(held, check)
        except ParametersError as error:
            return error
        if held.given is None:
            held.given = fresh
        held.given.parameters = fresh.parameters
        function = check.watcher if watching else check.function
        limit = None if watching else self.settings.timeout_s
        timer = None if limit is None else self.clock.call_at(began + limit, lambda: _time_out(held))
        held.timed_out = False
        self.numbers.calls += 1
        try:
            result = await call(function, held.given)  # type: ignore[arg-type]
            return None if watching and result is None else checked(result)
        except asyncio.CancelledError:
            if not held.timed_out or held.given.withdrawn:
                raise
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            self.numbers.timeouts += 1
            return TimeoutError(f"no answer within {limit:g} s")
        except Exception as error:
            if not held.failures:
                log.exception("check failed")
            return error
        finally:
            if timer is not None:
                timer.cancel()
            self.numbers.call_seconds += self.clock.now() - began

    # answering

    async def _conclude(self, held: Held, answer: Verdict | Exception | None) -> None:
        """Publish what came of a call, if it says anything new, and arrange for the next one."""
        if isinstance(answer, Exception):
            await self._failed(held, answer)
            return
        held.failures = 0
        after_s = self._next_call(held, answer)
        held.due = None if after_s is None else self.clock.now() + after_s
        if held.changed and held.due is not None:
            held.due = self.clock.now()
        if answer is None:
            return
        try:
            await self._say(held, answer, after_s)
        except RefusedError as error:
            await self._failed(held, error)

    def _next_call(self, held: Held, answer: Verdict | None) -> float | None:
        """Return in how many seconds to call again, None for never."""
        after_s = None if answer is None else recheck_of(answer)
        if after_s is not None:
            return after_s
        if held.action() == "watch" and (answer is None or isinstance(answer, Ready)):
            return held.check.watch_every_s if held.check is not None else None
        return None if isinstance(answer, Ready) else self.settings.recheck_s

    async def _failed(self, held: Held, error: Exception) -> None:
        """Show that a call failed, and try again later: later and later."""
        self.numbers.failures += 1
        held.failures += 1
        settings = self.settings
        after_s = min(settings.backoff_most_s, settings.backoff_s * 2.0 ** min(held.failures - 1, 30))
        held.due = self.clock.now() + after_s
        what = str(error) if isinstance(error, ParametersError | LookupError | VerdictError) else _told(error)
        log.warning("trying again", error=what, seconds=after_s, failures=held.failures)
        if held.request.state == "Pending":
            # An approval stays while it cannot be looked at.
            try:
                await self._say(held, Pending(f"The check failed and is tried again: {what}"), after_s)
            except RefusedError as refusal:
                log.error("verdict refused", error=str(refusal))

    async def _say(self, held: Held, answer: Verdict, after_s: float | None) -> None:
        """Publish a verdict that differs from the last one."""
        verdict = to_verdict(held.request, answer)
        said = held.said
        if said is not None and _same(said.verdict, verdict):
            held.said = Said(said.verdict, said.at, said.seq, after_s)
            return
        while True:
            number = held.number + 1
            # Before it is sent: whatever becomes of this task, the id is used up.
            held.number, held.sending = number, True
            before = held.said
            held.said = Said(verdict, self.clock.wall(), 0, after_s)
            try:
                stored = await self._send(message_id(held.request, number), verdict, after_s)
            except RefusedError:
                held.said = before
                raise
            finally:
                held.sending = False
            if _same(stored.verdict, verdict):
                break
            # A predecessor's, that was on its way when this process took over. It was first.
            self.numbers.repeated += 1
            held.said = Said(stored.verdict, self.clock.wall(), stored.seq, after_s)
            if stored.verdict.state in FINAL:
                return
        self.numbers.verdicts[verdict.state] += 1
        held.said = Said(verdict, self.clock.wall(), stored.seq, after_s)
        log.info("verdict", state=verdict.state, message=verdict.message, number=number, seq=stored.seq)

    def _settle(self, held: Held) -> None:
        task = asyncio.create_task(self._find_out(held), name=f"{held.key}-settle")
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _find_out(self, held: Held) -> None:
        """Perform the check again if the service has passed over the verdict."""
        said = held.said
        if said is None or held.action() != "settle":
            return
        if await self._unheard(held.key, said) and held.said is said:
            log.warning("verdict had no effect, performing the check again", request=held.key, seq=said.seq)
            held.said, held.due = None, self.clock.now()
        self._consider(held)

    # ending

    def _retire(self, held: Held) -> None:
        """End what is being done for a request that is withdrawn; its successor waits for the end."""
        held.disarm()
        if held.given is not None:
            held.given.withdrawn = True
        stopper = held.check.stopper if held.check is not None else None
        if held.task is None and stopper is None:
            return
        before = self._retiring.get(held.key)
        self._retiring[held.key] = asyncio.create_task(
            self._end(held, stopper, before), name=f"{held.key}-end"
        )

    async def _end(self, held: Held, stopper: Any, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        if (task := held.task) is not None:
            task.cancel()
            _, late = await asyncio.wait({task}, timeout=self.settings.cancel_s)
            if late:
                log.error("a function ignores its cancellation", request=held.key)
        if stopper is not None and (held.given is not None or self._give(held) is not None):
            assert held.given is not None
            held.given.withdrawn = True
            await self._stopped(held, stopper)
        if self._retiring.get(held.key) is asyncio.current_task():
            del self._retiring[held.key]
            if (successor := self._held.get(held.key)) is not None:
                self._consider(successor)

    async def _stopped(self, held: Held, stopper: Any) -> None:
        for attempt in range(1, STOP_ATTEMPTS + 1):
            try:
                await call(stopper, held.given)
                return
            except Exception:
                log.exception("on_stop failed", request=held.key, tried=attempt)
                await asyncio.sleep(min(self.settings.backoff_s * 2.0 ** (attempt - 1), 30.0))

    async def idle(self) -> None:
        """Wait until no check function is at work; watches may be."""
        while tasks := self.at_work(watching=False):
            await asyncio.wait(tasks)

    def at_work(self, *, watching: bool) -> set[asyncio.Task[None]]:
        tasks = {h.task for h in self._held.values() if h.task and (watching or h.action() != "watch")}
        return tasks | set(self._retiring.values())

    def preview(self, requests: Mapping[str, CheckRequest]) -> list[Request[Any]]:
        """Return requests as the author will see them, before anything is begun."""
        found = []
        for key, request in requests.items():
            kind = request.parameters.kind if request.parameters is not None else ""
            if (given := self._give(Held(key, request, self.app.find(request.check, kind)))) is not None:
                found.append(given)
        return found

    async def stop(self, drain_s: float = 0.0) -> None:
        """Begin nothing more, wait up to *drain_s* seconds for what is at work, and cancel the rest."""
        self._stopping = True
        for held in self._held.values():
            held.disarm()
        if drain_s and (tasks := self.at_work(watching=False)):
            await asyncio.wait(tasks, timeout=drain_s)
        tasks = self.at_work(watching=True) | self._settling
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self.settings.cancel_s)


def _time_out(held: Held) -> None:
    held.timed_out = True
    if held.task is not None:
        held.task.cancel()


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


def _same(one: CheckVerdict, other: CheckVerdict) -> bool:
    """Tell whether two verdicts of one attempt say the same."""
    return (
        one.state == other.state
        and one.reason == other.reason
        and one.message == other.message
        and one.requeue_after_seconds == other.requeue_after_seconds
        and list(one.pod_set_updates) == list(other.pod_set_updates)
    )


def _told(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
