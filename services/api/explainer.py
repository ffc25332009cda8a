"""Has a process of its own say why a workload is pending: it folds the log, which takes a while."""

import asyncio
import sys
from collections.abc import Collection

import msgspec
import structlog

from sluice.protocol.query import WhyAnswer, WhyRequest

from .explain_worker import Answer, Question

AT_ONCE, WAITING = 1, 8
ANSWER_S = 45.0

log = structlog.get_logger("sluice.api.explainer")


class BusyError(Exception):
    """Others have asked before; try again."""


class UnknownError(Exception):
    """There is no such workload."""


class Explainer:
    """One question at a time, and a few that wait: who asks most must not be all that this service does."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._asked = 0

    async def explain(self, request: WhyRequest, foreign: Collection[str] | None) -> WhyAnswer:
        """Return the answer, with what is *foreign* hidden in it.

        Raises:
            UnknownError: there is no such workload in that namespace.
            BusyError: too many ask, or it takes too long.
        """
        if self._asked >= AT_ONCE + WAITING:
            raise BusyError("others have asked why before; try again in a few seconds")
        self._asked += 1
        try:
            async with asyncio.timeout(ANSWER_S), self._turn:
                hide = None if foreign is None else sorted(foreign)
                return await self._answered(Question(request.namespace, request.name, hide))
        except TimeoutError:
            raise BusyError(f"no answer in {ANSWER_S:g} s; try again") from None
        finally:
            self._asked -= 1

    async def _answered(self, question: Question) -> WhyAnswer:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "sluice.services.api.explain_worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, said = await process.communicate(msgspec.json.encode(question))
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode != 0:
            log.error("not explained", error=said[-2000:].decode(errors="replace"))
            raise BusyError("the log cannot be read now; try again")
        answer = msgspec.json.decode(out, type=Answer)
        if answer.found is None:
            raise UnknownError(f"workload or job {question.name!r} of {question.namespace!r} not found")
        return answer.found
