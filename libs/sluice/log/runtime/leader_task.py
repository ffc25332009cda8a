"""Something that a service does beside deciding, again and again, while this replica leads."""

import asyncio
import contextlib
from abc import ABC, abstractmethod

from sluice.log.nats.jetstream import JetStreamLog

from .hooks import Hooks


class LeaderTask[S](Hooks[S], ABC):
    """Runs `work` from when this replica leads until it does not."""

    def __init__(self) -> None:
        self.target: JetStreamLog | None = None
        """The log to read and to write; set it before the service runs."""
        self._state: S | None = None
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def work(self) -> None:
        """Go on for ever; it is cancelled."""

    def leading(self, state: S, own: int) -> None:  # noqa: ARG002
        self._state = state
        self._task = asyncio.create_task(self.work(), name=type(self).__name__)

    def following(self) -> None:
        self._state = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def drain(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
