"""Work of an executor, one attempt of a job at a time, and its reports."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import structlog

from sluice.events.job import JobEvent, JobPodsReady, JobPodsReclaimable
from sluice.log.errors import EventLogError
from sluice.protocol.dispatch import DispatchEntry

from ._client import AsyncClient
from .execution._outcome import Held, Outcome, finished

log = structlog.get_logger("sluice.sdk.executor")

Unavailable = (EventLogError, ConnectionError, TimeoutError)
"""What a server that is away leads to."""


class Reporter(Protocol):
    """The executor, as work needs it."""

    @property
    def name(self) -> str: ...
    @property
    def client(self) -> AsyncClient: ...
    async def report(self, entry: DispatchEntry, data: JobEvent, what: str) -> None: ...


@dataclass(slots=True)
class Work:
    """One attempt of one job, given to this executor alone. `Executor` has an example.

    An executor of elastic jobs says what to do when one is resized:

        async def run(work: Work) -> Outcome:
            pods = await start(work.entry.pod_sets)

            async def resized(entry: DispatchEntry) -> None:
                await pods.scale(entry.pod_sets)
                await work.ready()

            work.on_resize = resized
            await work.ready()
            return await pods.ended()
    """

    entry: DispatchEntry
    """As it is now: a resize puts another one with other counts in its place."""
    executor: Reporter
    on_resize: Callable[[DispatchEntry], Coroutine[Any, Any, None] | None] | None = None
    """Called in the event loop when the job was resized: start or end pods, then call `ready` again.

    Coroutines are awaited one after the other, and cancelled with `run`. If it raises, the attempt has
    failed, and `run` is cancelled.
    """
    on_lease_end: Callable[[float], None] | None = None
    """Called, before `run` is cancelled, when this executor's lease ends: all must have ended within so many
    seconds, since the job may then be given to others. It may come while `run` stops already."""
    resizing: set[asyncio.Task[None]] = field(default_factory=set, repr=False)
    turns: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    failure: Exception | None = None
    """What `on_resize` raised."""
    _reports: int = 0
    """Makes each report another message: the same counts may have to be said again after a resize."""

    async def manifest(self) -> msgspec.Raw:
        """Return the job's manifest as it was submitted, JSON; waits for a server that is away.

        Raises:
            LookupError: the log does not have it.
        """
        while True:
            try:
                return await self.executor.client.manifest(self.entry.manifest_seq, self.entry.job)
            except Unavailable as error:
                detail = str(error) or type(error).__name__
                log.info("manifest not read yet", job=self.entry.job, error=detail)
                await asyncio.sleep(0.2)

    async def ready(self, *, ready: bool = True) -> None:
        """Report that all pods run, or that some do not any more."""
        self._reports += 1
        await self.executor.report(
            self.entry,
            JobPodsReady(attempt=self.entry.attempt, uid=self.entry.uid, executor=self.name, ready=ready),
            f"ready{self._reports}",
        )

    async def reclaimable(self, pods: dict[str, int], succeeded: dict[str, int] | None = None) -> None:
        """Report how many pods of each set have ended for good.

        *succeeded*, of elastic jobs: how many of the completions that the manifest asks for are done, which
        bounds how many pods a larger size can run.
        """
        entry = self.entry
        counts = {each.name: each.count for each in entry.pod_sets if each.name in pods}
        data = JobPodsReclaimable(
            pods=pods, counts=counts, succeeded=succeeded or {}, attempt=entry.attempt, uid=entry.uid
        )
        self._reports += 1
        await self.executor.report(entry, data, f"reclaimable{self._reports}")

    @property
    def name(self) -> str:
        """The executor's name."""
        return self.executor.name


Run = Callable[[Work], Awaitable[Outcome]]
Recover = Callable[[Held], Awaitable[Outcome | None]]
"""Ends what an earlier process of this executor left of an attempt; returns how it had ended, if it had."""


__all__ = ["Outcome", "Recover", "Run", "Unavailable", "Work", "finished"]
