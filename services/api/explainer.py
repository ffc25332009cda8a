"""Explanation of pending workloads in a copy of the service, as it takes a while to fold the log for it."""

from collections.abc import Collection
from functools import partial

import msgspec
import structlog

from sluice.log.errors import EventLogError
from sluice.log.runtime.process_pool import ChildLostError
from sluice.log.runtime.question_pool import PoolBusyError, QuestionPool
from sluice.protocol.query import WhyAnswer, WhyRequest
from sluice.readmodel.scope import hidden
from sluice.replay.explain.others import others_at
from sluice.replay.explain.why import explain
from sluice.replay.explain.why_text import plain_words
from sluice.replay.source.errors import UnknownWorkloadError
from sluice.replay.source.time_travel import scheduler_at
from sluice.retention.live import log_source

from .config import Config

AT_ONCE, WAITING = 1, 8
ANSWER_S = 45.0

log = structlog.get_logger("sluice.api.explainer")


class BusyError(Exception):
    """Others have asked before; try again."""


class UnknownError(Exception):
    """There is no such workload."""


class Explainer:
    """One question at a time, and a few that wait: who asks most must not be all that this service does."""

    def __init__(self, config: Config) -> None:
        self._url, self._cell = config.nats_url, config.cell
        self._pool = QuestionPool(AT_ONCE, WAITING, ANSWER_S)

    async def explain(self, request: WhyRequest, seq: int, foreign: Collection[str] | None) -> WhyAnswer:
        """Return the answer, with what is *foreign* hidden in it; *seq*: up to where it is known who asks.

        Raises:
            UnknownError: there is no such workload in that namespace.
            BusyError: too many ask, or it takes too long.
        """
        name = f"{request.namespace}/{request.name}"
        hide = None if foreign is None else frozenset(foreign)
        work = partial(_explained, self._url, self._cell, name, hide)
        try:
            found = await self._pool.ask((seq, name, hide), work, lasts=lambda _: False)
        except PoolBusyError:
            raise BusyError("others have asked why before; try again in a few seconds") from None
        except TimeoutError as error:
            raise BusyError(f"{error}; try again") from None
        except (ChildLostError, EventLogError) as error:
            log.error("not explained", error=str(error))
            raise BusyError("the log cannot be read now; try again") from None
        if found is None:
            raise UnknownError(f"workload or job {request.name!r} of {request.namespace!r} not found")
        return found


def _explained(url: str, cell: str, name: str, foreign: frozenset[str] | None) -> WhyAnswer | None:
    """Return the answer as of the end of the log; None: there is no such workload."""
    source = log_source(url, cell)
    seq = source.end
    fold = scheduler_at(source, seq)
    try:
        others = others_at(source, seq, fold, name)
        report = explain(fold.state, name, seq, fold.at, others=others)
    except UnknownWorkloadError:
        return None
    text, plain = list(plain_words(report)), msgspec.to_builtins(report.plain())
    if foreign is not None:
        text, plain = hidden((text, plain), foreign)
    return WhyAnswer(seq=seq, text=text, report=plain)
