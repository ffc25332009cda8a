"""Questions that take seconds, in copies of this process: few at a time, ended when nobody waits any more."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from .background_fork import in_copy_beside

_REMEMBERED = 64


class PoolBusyError(Exception):
    """As many questions as may wait for an answer do."""


class _Outcome(NamedTuple):
    answer: Any = None
    error: Exception | None = None


class _Work:
    """A question that is being worked on, and how many wait for it."""

    def __init__(self, task: "asyncio.Task[_Outcome]") -> None:
        self.task, self.waiting = task, 0


class QuestionPool:
    """A bounded pool; the same question is worked on once, and its answer remembered.

    *at_once*: how many are worked on, *waiting*: how many more may wait, *answer_s*: how long one may take.
    """

    def __init__(self, at_once: int, waiting: int, answer_s: float) -> None:
        self._turn = asyncio.Semaphore(at_once)
        self._most, self._answer_s = at_once + waiting, answer_s
        self._works: dict[Hashable, _Work] = {}
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._works) - self.running

    async def ask[T](self, key: Hashable, work: Callable[[], T], *, lasts: Callable[[T], bool]) -> T:
        """Return the answer to the question that *key* names; *work* finds it, in a copy of this process.

        *lasts*: whether an answer is that to everybody who asks the same later.

        Raises:
            PoolBusyError: too many ask.
            TimeoutError: it takes too long.
            ChildLostError: the process that looked for it was ended.
        """
        if key in self._answers:
            self._answers.move_to_end(key)
            known: T = self._answers[key]
            return known
        outcome = await self._joined(key, work)
        if outcome.error is not None:
            raise outcome.error
        found: T = outcome.answer
        if lasts(found):
            self._answers[key] = found
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        return found

    async def _joined(self, key: Hashable, work: Callable[[], Any]) -> _Outcome:
        running = self._works.get(key)
        if running is None:
            if len(self._works) >= self._most:
                raise PoolBusyError("too many questions wait for an answer; try again in a few seconds")
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

    async def _work(self, key: Hashable, work: Callable[[], Any]) -> _Outcome:
        try:
            async with self._turn:
                self.running += 1
                try:
                    async with asyncio.timeout(self._answer_s):
                        return _Outcome(await in_copy_beside(work))
                finally:
                    self.running -= 1
        except TimeoutError:
            return _Outcome(error=TimeoutError(f"no answer in {self._answer_s:g} s"))
        except Exception as error:  # told to whoever waits; who has gone is not told of by a warning
            return _Outcome(error=error)
        finally:
            self._forget(key, asyncio.current_task())

    def _forget(self, key: Hashable, task: "asyncio.Task[Any] | None") -> None:
        """Another's work may have begun under the same key, after this one's was cancelled."""
        work = self._works.get(key)
        if work is not None and work.task is task:
            del self._works[key]
