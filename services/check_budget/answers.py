"""Answers on the standing of budgets, over NATS: the active replica has `sluice.<cell>.query.budgets`."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import structlog

from sluice.events.base import Micros
from sluice.events.codec import rfc3339
from sluice.log.errors import LogUnavailableError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.responder import Responder

from .ledger import Ledger
from .page import report

log = structlog.get_logger("sluice.check.budget")


@asynccontextmanager
async def answering(
    source: JetStreamLog, ledger: Ledger, now: Callable[[], Micros], active: Callable[[], bool]
) -> AsyncIterator[None]:
    """Answer while inside. Stand-bys are silent: what is promised is known to the active replica only.

    A check that cannot offer this goes on without: it judges, and that is its task.
    """

    async def answer(_: bytes) -> bytes | None:
        if not active():
            return None
        at = now()
        return msgspec.json.encode({"at": rfc3339(at), "budgets": report(ledger, at)})

    responder = Responder(source.url, "check-budget-query")
    try:
        await responder.open()
        await responder.subscribe(f"{source.cell.prefix}query.budgets", answer)
    except LogUnavailableError as error:
        log.warning("query.budgets", error=str(error))
        yield
        return
    try:
        yield
    finally:
        await responder.close()
