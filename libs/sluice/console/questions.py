"""Questions that take seconds, in processes of their own: few at a time, ended when nobody waits any more."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from sluice.log.runtime.background_fork import in_copy_beside
from sluice.log.runtime.process_pool import ChildLostError

from .problems import BusyError, ProblemError, TimeoutProblemError, UnavailableError

AT_ONCE, WAITING = 2, 8
ANSWER_S = 120.0
REMEMBERED = 64


class Told(NamedTuple):
    """What a child answers: an answer, or what is wrong with the question."""

    answer: Any = None
    problem: str = ""
    code: str = ""
    hint: str = ""


class _Work:
    """A question that is being worked on, and how many wait for it."""

    def __init__(self, task: "asyncio.Task[Told]") -> None:
        self.task, self.waiting = task, 0


class Questions:
    """A bounded pool; the same question of the same sequence is worked on once, and then remembered."""

    def __init__(self, at_once: int = AT_ONCE, waiting: int = WAITING, answer_s: float = ANSWER_S) -> None:
        self._turn = asyncio.Semaphore(at_once)
        self._most, self._answer_s = at_once + waiting, answer_s
        self._works: dict[object, _Work] = {}
        self._answers: OrderedDict[object, Told] = OrderedDict()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._works) - self.running

    async def ask(self, key: object, work: Callable[[], Told]) -> Any:
        """Return the answer to the question that *key* names; *work* finds it, in a copy of this process.

        Raises:
            BusyError: too many ask.
            ProblemError: there is no answer.
        """
        found = self._answers.get(key)
        if found is None:
            found = await self._joined(key, work)
        else:
            self._answers.move_to_end(key)
        if found.problem:
            raise _problem(found)
        return found.answer

    async def _joined(self, key: object, work: Callable[[], Told]) -> Told:
        running = self._works.get(key)
        if running is None:
            if len(self._works) >= self._most:
                raise BusyError("too many questions wait for an answer", "try again in a few seconds")
            running = self._works[key] = _Work(asyncio.create_task(self._work(key, work)))
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        finally:
            running.waiting -= 1
            if not running.waiting and not running.task.done():
                # The last one who asked has gone; whoever asks next begins anew.
                running.task.cancel()
                self._forget(key, running.task)

    async def _work(self, key: object, work: Callable[[], Told]) -> Told:
        try:
            async with self._turn:
                self.running += 1
                try:
                    async with asyncio.timeout(self._answer_s):
                        found = await in_copy_beside(work)
                finally:
                    self.running -= 1
        except TimeoutError:
            return Told(problem=f"no answer in {self._answer_s:g} s", code="Timeout")
        except ChildLostError as error:
            return Told(problem=str(error) or "the process that looked for it was ended", code="Unavailable")
        finally:
            self._forget(key, asyncio.current_task())
        if not found.problem:
            self._answers[key] = found
            if len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        return found

    def _forget(self, key: object, task: "asyncio.Task[Any] | None") -> None:
        """Another's work may have begun under the same key, after this one's was cancelled."""
        work = self._works.get(key)
        if work is not None and work.task is task:
            del self._works[key]


def _problem(told: Told) -> ProblemError:
    kinds: dict[str, type[ProblemError]] = {"Timeout": TimeoutProblemError, "Unavailable": UnavailableError}
    kind = kinds.get(told.code, ProblemError)
    error = kind(told.problem, told.hint)
    if told.code == "NotFound":
        error.status, error.code = 404, "NotFound"
    return error
