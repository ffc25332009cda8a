"""Asking replicas what they are: role, place in the log, digest of their state."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection

import msgspec
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from sluice.log.runtime.runner import Settings
from sluice.log.runtime.service import Digest, Status

REPEAT_S = 0.04
"""How often a question is repeated; so exact is what is measured with it."""


class Probe:
    """Asks all replicas of a service at once; they are told apart by their pids."""

    def __init__(self, client: Client, cell: str = "main") -> None:
        self.client, self.cell = client, cell

    async def _ask[T: Status](
        self,
        service: str,
        what: str,
        kind: type[T],
        enough: Callable[[dict[int, T]], bool],
        wait_s: float,
        repeat_s: float,
    ) -> dict[int, T]:
        """Ask again and again until the newest answers, by pid, are *enough*, or *wait_s* is over."""
        answers: dict[int, T] = {}
        arrived = asyncio.Event()
        inbox = self.client.new_inbox()

        async def take(message: Msg) -> None:
            if message.data:
                answer = msgspec.json.decode(message.data, type=kind)
                answers[answer.pid] = answer
                arrived.set()

        deadline = time.monotonic() + wait_s
        subscription = await self.client.subscribe(inbox, cb=take)
        try:
            while not enough(answers) and time.monotonic() < deadline:
                with contextlib.suppress(nats.errors.Error, OSError):
                    await self.client.publish(f"sluice.{self.cell}.control.{service}.{what}", reply=inbox)
                asked = time.monotonic()
                while not enough(answers) and time.monotonic() < min(asked + repeat_s, deadline):
                    arrived.clear()
                    try:
                        async with asyncio.timeout(max(0.0, asked + repeat_s - time.monotonic())):
                            await arrived.wait()
                    except TimeoutError:
                        break
        finally:
            with contextlib.suppress(nats.errors.Error, OSError):
                await subscription.unsubscribe()
        return answers

    async def until(
        self, service: str, enough: Callable[[dict[int, Status]], bool], wait_s: float
    ) -> dict[int, Status] | None:
        """Return the first answers, by pid, that are *enough*; None if there are none within *wait_s*."""
        answers = await self._ask(service, "status", Status, enough, wait_s, REPEAT_S)
        return answers if enough(answers) else None

    async def digests(self, service: str, pids: Collection[int], wait_s: float = 60.0) -> dict[int, Digest]:
        """Return the digests of these replicas, as far as they answer."""
        return await self._ask(
            service, "digest", Digest, lambda answers: answers.keys() >= set(pids), wait_s, 1.0
        )


def leader(answers: dict[int, Status], pids: Collection[int]) -> int | None:
    """Return the pid of the one that leads, among *pids*."""
    return next((pid for pid, a in answers.items() if pid in pids and a.role == "leader"), None)


def standby(answers: dict[int, Status], pids: Collection[int]) -> int | None:
    """Return the pid of one that has a warm state, among *pids*."""
    return next(
        (pid for pid, a in answers.items() if pid in pids and a.role == "standby" and a.lag < WARM), None
    )


WARM = Settings().mark_inputs + 500
"""Log entries that a stand-by may be behind and still count as warm. It holds inputs back until its leader's
next step says how many came before; a leader with nothing to decide writes one every `mark_inputs`."""
