"""The engine: carries out what the check machine decides: calls the author's functions, publishes, waits.

Knows nothing of NATS: requests are told to it, verdicts leave through `send`, time comes from a clock.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

import structlog

from sluice.log.errors import EventLogError
from sluice.log.runtime.alarm import Alarm
from sluice.protocol.checks import CheckRequest, CheckVerdict

from . import _actions
from ._check import Check, call
from ._clock import Clock
from ._desk import Moment
from ._failures import told
from ._history import Past
from ._machine import Machine
from ._metrics import Numbers
from ._registry import Registry
from ._request import ParametersError, Request, decode_parameters
from ._verdict_messages import RefusedError, Said, Stored
from ._verdicts import VerdictError, checked

log = structlog.get_logger("sluice.sdk.checks")

Send = Callable[[str, CheckVerdict, float | None], Awaitable[Stored]]
"""Publish a verdict under an id, once; returns what the log then holds under it.

Raises RefusedError; or EventLogError, ConnectionError, TimeoutError when there is no answer.
"""
Unheard = Callable[[str, Said], Awaitable[bool | str]]
"""Tells whether the service has passed over a verdict; a text says why."""

TURN = 200
"""Requests taken in before others have their turn, the heartbeat first of all."""


class Engine:
    """Performs the checks of one controller, while its process is the active one.

    *may*: is it still? A process that stood still finds its alarms due before it finds the heartbeat lost.
    """

    def __init__(
        self,
        app: Registry,
        clock: Clock,
        send: Send,
        unheard: Unheard,
        numbers: Numbers | None = None,
        may: Callable[[], bool] = lambda: True,
    ) -> None:
        self.app, self.settings, self.clock = app, app.settings, clock
        self.numbers = numbers or Numbers(app.name)
        self._machine = Machine(app, self.numbers)
        self._send, self._unheard, self._may = send, unheard, may
        self._given: dict[int, Request[Any]] = {}
        """The author's requests, by the machine's number of the attempt."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._calls: dict[int, asyncio.Task[_actions.CallEnd]] = {}
        self._sends: dict[int, asyncio.Task[_actions.Publication]] = {}
        self._watching: set[asyncio.Task[Any]] = set()
        """Calls of watches, until they are cancelled."""
        self._alarm = Alarm(lambda: self._do(self._machine.tick(self._moment())), clock.call_at)
        self._moved = asyncio.Event()

    # what there is

    async def replace(
        self, requests: Mapping[str, CheckRequest], past: Callable[[str], Past] | None = None
    ) -> None:
        """Tell all requests that there are. *past*: what the log says of each, on becoming active."""
        for key in self._machine.keys:
            if key not in requests:
                self.update(key, None)
        for number, (key, request) in enumerate(requests.items()):
            self.update(key, request, past(key) if past is not None else None)
            if number % TURN == TURN - 1:
                await asyncio.sleep(0)

    def update(self, key: str, request: CheckRequest | None, past: Past | None = None) -> None:
        """Tell how one request is now; None: it is withdrawn."""
        self._do(self._machine.told(key, request, self._moment(), past))

    def recheck(self, select: Callable[[Request[Any]], bool]) -> int:
        """Ask again now about what waits or is watched; returns how many requests that concerns."""
        selected = []
        for held in self._machine.waiting():
            given = self._give(held.number, held.request, held.check)
            if given is not None and select(given):
                selected.append(held)
        self._do(self._machine.recheck(selected, self._moment()))
        return len(selected)

    def preview(self, requests: Mapping[str, CheckRequest]) -> list[Request[Any]]:
        """Return requests as the author will see them, before anything is begun."""
        found = []
        for request in requests.values():
            check = self._find(request)
            if check is not None:
                with contextlib.suppress(ParametersError):
                    found.append(_made(request, check))
        return found

    def at_work(self, *, watching: bool) -> set[asyncio.Task[Any]]:
        """Return what runs, with or without the calls of watches."""
        return set(self._tasks) if watching else self._tasks - self._watching

    async def stop(self, drain_s: float = 0.0) -> None:
        """Begin nothing more, wait up to *drain_s* seconds for what is at work, and cancel the rest."""
        self._do(self._machine.stop(self._moment()))
        if drain_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(drain_s):
                    while self._machine.busy:
                        self._moved.clear()
                        await self._moved.wait()
        self._machine.close()
        self._alarm.set(self._machine.deadline)
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self.settings.cancel_s)

    # doing what the machine says

    def _moment(self) -> Moment:
        return Moment(self.clock.now(), self.clock.wall())

    def _do(self, actions: Iterable[_actions.Action]) -> None:
        for action in actions:
            match action:
                case _actions.Call():
                    self._begin_call(action)
                case _actions.CancelCall(number):
                    self._watching.discard(self._calls[number])
                    self._calls[number].cancel()
                case _actions.Publish(number):
                    self._sends[number] = self._begin(self._publish(action), action.ident)
                    self._sends[number].add_done_callback(partial(self._published, number))
                case _actions.CancelPublish(number):
                    if (task := self._sends.get(number)) is not None:
                        task.cancel()
                case _actions.CallStop():
                    self._begin(self._stop(action), f"{action.attempt}-end")
                case _actions.AskFate():
                    self._begin(self._ask_fate(action), f"{action.key}-settle")
                case _actions.Change(number, request):
                    if (given := self._given.get(number)) is not None:
                        given.raw = request
                case _actions.Withdraw(number):
                    if (given := self._given.get(number)) is not None:
                        given.withdrawn = True
                case _actions.Forget(number):
                    self._given.pop(number, None)
        self._alarm.set(self._machine.deadline)
        self._moved.set()

    def _begin[T](self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # calling

    def _find(self, request: CheckRequest) -> Check | None:
        kind = request.parameters.kind if request.parameters is not None else ""
        return self.app.find(request.check, kind)

    def _give(self, attempt: int, request: CheckRequest, check: Check | None) -> Request[Any] | None:
        """Make the author's request; None if the parameters do not fit (see `_answer`)."""
        if attempt not in self._given and check is not None:
            with contextlib.suppress(ParametersError):
                self._given[attempt] = _made(request, check)
        return self._given.get(attempt)

    def _begin_call(self, action: _actions.Call) -> None:
        task = self._begin(self._answer(action), f"{action.request.workload.name}-{action.attempt}")
        self._calls[action.call] = task
        if action.watching:
            self._watching.add(task)
        task.add_done_callback(partial(self._call_ended, action.call))

    async def _answer(self, action: _actions.Call) -> _actions.CallEnd:
        """Call the function that is due."""
        if not self._may():
            # Another replica performs from now on; this task is about to be cancelled.
            await asyncio.Event().wait()
        request = action.request
        structlog.contextvars.bind_contextvars(
            workload=f"{request.workload.namespace}/{request.workload.name}",
            check=request.check,
            attempt=request.attempt,
        )
        check, began = self._find(request), self.clock.now()
        if check is None:
            return _actions.Failed(
                f"controller {self.app.name!r} has no function for check {request.check!r}"
            )
        try:
            fresh = _made(request, check)
        except ParametersError as error:
            return _actions.Failed(str(error))
        given = self._given.setdefault(action.attempt, fresh)
        given.parameters = fresh.parameters
        function: Any = check.watcher if action.watching else check.function
        self.numbers.calls += 1
        try:
            result = await call(function, given)
            return _actions.Answered(None if action.watching and result is None else checked(result))
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:
            # Also what would end a process: it is an author's who raises it here, of one request.
            if not action.failures:
                log.exception("check failed")
            return _actions.Failed(str(error) if isinstance(error, VerdictError) else told(error))
        finally:
            self.numbers.call_seconds += self.clock.now() - began

    def _call_ended(self, number: int, task: asyncio.Task[_actions.CallEnd]) -> None:
        del self._calls[number]
        self._watching.discard(task)
        self._do(self._machine.call_ended(number, _end_of(task), self._moment()))

    async def _stop(self, action: _actions.CallStop) -> None:
        check, released = self._find(action.request), True
        given = self._give(action.attempt, action.request, check)
        if check is not None and check.stopper is not None and given is not None:
            given.withdrawn = True
            try:
                await call(check.stopper, given)
            except GeneratorExit:
                raise
            except BaseException:
                # A cancellation too: if it is this engine's, nobody listens any more.
                log.exception("on_stop failed", request=given.key, tried=action.tried)
                released = False
        self._do(self._machine.stop_ended(action.number, self._moment(), released=released))

    # the log

    async def _publish(self, action: _actions.Publish) -> _actions.Publication:
        try:
            stored = await self._send(action.ident, action.verdict, action.recheck_after_s)
        except RefusedError as error:
            return _actions.Refused(told(error))
        except (EventLogError, ConnectionError, TimeoutError) as error:
            log.info("verdict not acknowledged", id=action.ident, error=told(error))
            return _actions.Unanswered()
        except Exception as error:
            log.exception("verdict cannot be published", id=action.ident)
            return _actions.Refused(told(error))
        return _actions.Found(stored.seq, stored.verdict)

    def _published(self, number: int, task: asyncio.Task[_actions.Publication]) -> None:
        del self._sends[number]
        if not task.cancelled():
            self._do(self._machine.published(number, task.result(), self._moment()))

    async def _ask_fate(self, action: _actions.AskFate) -> None:
        unheard: bool | str = False
        try:
            unheard = await self._unheard(action.key, action.said)
        except Exception:
            # It is asked again when the verdict is overdue again.
            log.exception("not known what became of a verdict", request=action.key)
        why = unheard if isinstance(unheard, str) else ""
        self._do(self._machine.fate(action.number, self._moment(), unheard=bool(unheard), why=why))


def _made(request: CheckRequest, check: Check) -> Request[Any]:
    return Request(request, decode_parameters(request.parameters_spec, check.parameters))


def _end_of(task: asyncio.Task[_actions.CallEnd]) -> _actions.CallEnd:
    """Return how a call ended, also if it is the engine's own code that has failed."""
    if task.cancelled():
        return _actions.Cancelled()
    error = task.exception()
    return task.result() if error is None else _actions.Failed(told(error))
