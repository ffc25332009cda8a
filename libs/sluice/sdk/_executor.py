"""Be an executor: follow dispatch, take work, run it, report; the protocol is in `sluice.protocol.dispatch`.

An elastic job is resized while it runs: `work.on_resize`, if set, is called with the new entry, and awaited
if it is a coroutine function. Without it the job keeps the pods that it began with, of which some may have no
quota any more.

`run` is cancelled when the job must stop; it ends its processes and lets the cancellation through.

What is to be done, and when, is decided in `sluice.sdk.execution`; this is the shell around it.
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import structlog

from sluice.events.base import JobKey
from sluice.events.job import JobEvent
from sluice.log.runtime.alarm import Alarm
from sluice.protocol.dispatch import DispatchEntry, job_of_key

from ._client import AsyncClient
from ._entries import read_entry
from ._errors import NotPublishedError, SdkError
from ._questions import Questions
from ._work import Recover as Recovery
from ._work import Run, Unavailable, Work
from .execution._book import ExecutorSettings, Identity
from .execution._machine import Machine
from .execution._outcome import Outcome
from .execution.actions import (
    Action,
    Ask,
    CancelWork,
    Ended,
    Follow,
    HurryWork,
    Judge,
    Judged,
    Leased,
    Recover,
    Recovered,
    Reported,
    ResizeWork,
    StartWork,
    Unanswered,
)

log = structlog.get_logger("sluice.sdk.executor")


class DuplicateExecutorError(SdkError):
    """Another process is at work under this executor's name."""

    def __init__(self, name: str, other: str) -> None:
        super().__init__(f"executor {name!r}: another process ({other}) has this name; names must be unique")
        self.name, self.other = name, other


@dataclass
class Executor:
    """Runs the work of one cell under one name. *recover* is called for claims of an earlier life.

        from sluice.sdk import AsyncClient, Executor, ExecutorSettings, Outcome, Work

        async def run(work: Work) -> Outcome:
            process = await start(await work.manifest())
            await work.ready()  # all its pods run
            return Outcome(success=await process.wait() == 0)

        async with AsyncClient() as client:
            await Executor(client, "slurm-1", run, ExecutorSettings(flavors=["spot"], capacity=64)).serve()

    When the job must stop, `run` is cancelled: it ends its processes and lets the cancellation through.
    """

    client: AsyncClient
    name: str
    run: Run
    settings: ExecutorSettings = field(default_factory=ExecutorSettings)
    recover: Recovery | None = None
    accepts: Callable[[DispatchEntry, msgspec.Raw], bool] | None = None
    """Asked, before a job is claimed, whether its manifest can be run here; if not, it is left to others."""
    on_lease: Callable[[float], None] | None = None
    """Of who has a lease: called as often as it is renewed, with its end (`time.monotonic`), for whoever ends
    what runs should this process not come to do it."""

    def __post_init__(self) -> None:
        self.instance = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        who = Identity(name=self.name, instance=self.instance, host=socket.gethostname(), pid=os.getpid())
        self._machine = Machine(who, self.settings, judges=self.accepts is not None)
        self._questions = Questions(self.client, self.name, self.settings.namespaces)
        self._serving = self._stop_asked = False
        self._ended: asyncio.Future[Ended] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._works: dict[int, tuple[asyncio.Task[Outcome], Work]] = {}
        self._reports: dict[int, asyncio.Future[bool]] = {}
        self._alarm = Alarm(lambda: self._do(self._machine.tick(time.monotonic())))

    # life

    def stop(self) -> None:
        """End in order: what runs is stopped and reported, so that it runs elsewhere."""
        self._stop_asked = True
        if self._serving:
            self._do(self._machine.stop(time.monotonic()))

    async def serve(self) -> None:
        """Work until `stop`.

        Raises:
            DuplicateExecutorError: another process took over this name.
        """
        self._ended = asyncio.get_running_loop().create_future()
        self._serving = True
        try:
            self._do(self._machine.begin(time.monotonic()))
            if self._stop_asked:
                self.stop()
            ended = await asyncio.shield(self._ended)
        finally:
            if not self._machine.ended:
                await self._abandon()
            self._serving = False
            await self._clean_up()
        if ended.duplicate:
            raise DuplicateExecutorError(self.name, ended.duplicate)

    async def _abandon(self) -> None:
        """End what runs without a report, when this is cancelled or has a fault."""
        assert self._ended is not None
        over = self._ended = asyncio.get_running_loop().create_future()
        self._do(self._machine.abandon(time.monotonic()))
        await over

    async def _clean_up(self) -> None:
        self._alarm.set(None)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # doing what the machine says

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Ask():
                    self._begin(self._answer(action))
                case StartWork(number, entry):
                    self._start(number, entry)
                case CancelWork(number):
                    self._cancel(*self._works[number])
                case HurryWork(number, within_s):
                    self._hurry(self._works[number][1], within_s)
                case Leased(until):
                    if self.on_lease is not None:
                        self.on_lease(until)
                case ResizeWork(number, entry, resized):
                    self._resize(number, entry, resized=resized)
                case Reported(number, in_log):
                    self._reported(number, in_log=in_log)
                case Follow():
                    self._begin(self._follow())
                case Ended():
                    if self._ended is not None and not self._ended.done():
                        self._ended.set_result(action)
        self._alarm.set(self._machine.deadline)

    def _begin(self, work: "asyncio._CoroutineLike[None]") -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("executor failed", error=f"{type(error).__name__}: {error}")
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)

    async def _answer(self, ask: Ask) -> None:
        request = ask.request
        if isinstance(request, Recover):
            outcome = await self.recover(request.held) if self.recover is not None else None
            answer: object = Recovered(outcome)
        elif isinstance(request, Judge):
            answer = await self._judge(request.entry)
        else:
            try:
                answer = await self._questions.ask(request)
            except Unavailable as error:
                answer = Unanswered(str(error) or type(error).__name__)
            except Exception as error:
                # What is there cannot be understood. Who asks again may find it mended; what runs goes on.
                log.exception("not asked", request=type(request).__name__)
                answer = Unanswered(type(error).__name__)
        self._do(self._machine.answer(ask.number, answer, time.monotonic()))  # type: ignore[arg-type]

    async def _judge(self, entry: DispatchEntry) -> Judged | Unanswered:
        """Ask `accepts`; what it cannot say of is taken, and its `run` says what is wrong."""
        try:
            manifest = await self.client.manifest(entry.manifest_seq, entry.job)
        except Unavailable as error:
            return Unanswered(str(error) or type(error).__name__)
        except LookupError:
            return Judged(fit=True)
        try:
            return Judged(fit=self.accepts is None or self.accepts(entry, manifest))
        except Exception:
            log.exception("accepts failed", job=entry.job)
            return Judged(fit=True)

    async def _follow(self) -> None:
        """Tell what is wanted, and what changes about that."""
        while True:
            try:
                async for batch in self._questions.follow():
                    self._do(self._machine.dispatched(_decoded(batch), time.monotonic()))
            except Unavailable as error:
                # Beginning anew tells all that is wanted now, which is all that matters.
                log.warning("following again", error=str(error) or type(error).__name__)
                await asyncio.sleep(1.0)

    # work

    def _start(self, number: int, entry: DispatchEntry) -> None:
        work = Work(entry, self)
        task = asyncio.create_task(self._work(work), name=f"{entry.job}-{entry.attempt}")
        self._works[number] = task, work
        task.add_done_callback(partial(self._work_ended, number))

    async def _work(self, work: Work) -> Outcome:
        try:
            return await self.run(work)
        except asyncio.CancelledError:
            if work.failure is None:
                raise
            return self._failed(work.failure)
        except Exception as error:
            log.exception("work failed", job=work.entry.job, attempt=work.entry.attempt)
            return self._failed(error)

    def _failed(self, error: Exception) -> Outcome:
        return Outcome(success=False, message=f"executor {self.name}: {type(error).__name__}: {error}")

    def _cancel(self, task: asyncio.Task[Outcome], work: Work) -> None:
        for resizing in work.resizing:
            resizing.cancel()
        task.cancel()

    def _hurry(self, work: Work, within_s: float) -> None:
        if work.on_lease_end is None:
            return
        try:
            work.on_lease_end(within_s)
        except Exception:
            # It is cancelled all the same.
            log.exception("on_lease_end failed", job=work.entry.job, attempt=work.entry.attempt)

    def _work_ended(self, number: int, task: asyncio.Task[Outcome]) -> None:
        _, work = self._works.pop(number)
        for resizing in work.resizing:
            resizing.cancel()
        outcome = None if task.cancelled() else task.result()
        self._do(self._machine.work_ended(number, outcome, time.monotonic()))

    def _resize(self, number: int, entry: DispatchEntry, *, resized: bool) -> None:
        task, work = self._works[number]
        work.entry = entry
        if not resized or work.on_resize is None or work.failure is not None:
            return
        try:
            going = work.on_resize(entry)
        except Exception as error:
            self._resize_failed(task, work, error)
            return
        if going is not None:
            resizing = self._begin(self._resizing(task, work, going))
            work.resizing.add(resizing)
            resizing.add_done_callback(work.resizing.discard)
            # Not in the task itself: one that is cancelled before its first turn never runs.
            resizing.add_done_callback(lambda _: going.close())

    async def _resizing(
        self, task: asyncio.Task[Outcome], work: Work, going: Coroutine[Any, Any, None]
    ) -> None:
        try:
            async with work.turns:
                await going
        except Exception as error:
            self._resize_failed(task, work, error)

    def _resize_failed(self, task: asyncio.Task[Outcome], work: Work, error: Exception) -> None:
        """End the attempt as failed; `run` is cancelled, so that it ends its pods."""
        log.error("resize failed", job=work.entry.job, attempt=work.entry.attempt, exc_info=error)
        work.failure = error
        task.cancel()

    # reporting

    async def report(self, entry: DispatchEntry, data: JobEvent, what: str) -> None:
        """Publish a report on an attempt, at least once; *what* makes its id.

        Raises:
            NotPublishedError: nobody answers, and this executor is about to end.
        """
        message_id = f"{entry.uid}-{entry.attempt}-{what}"
        number, actions = self._machine.report(entry.job, data, message_id, time.monotonic())
        reported = self._reports[number] = asyncio.get_running_loop().create_future()
        self._do(actions)
        try:
            if not await reported:
                raise NotPublishedError(entry.job, type(data).__name__, "the executor ends")
        finally:
            del self._reports[number]

    def _reported(self, number: int, *, in_log: bool) -> None:
        reported = self._reports.get(number)
        if reported is not None and not reported.done():
            reported.set_result(in_log)


def _decoded(batch: Iterable[tuple[str, bytes | None]]) -> list[tuple[JobKey, DispatchEntry | None]]:
    found: list[tuple[JobKey, DispatchEntry | None]] = []
    for key, value in batch:
        if value is None:
            found.append((job_of_key(key), None))
            continue
        if (entry := read_entry(key, value)) is not None:
            found.append((entry.job, entry))
    return found


__all__ = ["DuplicateExecutorError", "Executor", "ExecutorSettings"]
