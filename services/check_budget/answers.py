"""How budgets stand, over NATS: the active replica answers `sluice.<cell>.query.budgets`."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import nats
import structlog
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from sluice.events.base import Micros
from sluice.events.codec import rfc3339
from sluice.log.nats.jetstream import JetStreamLog

from .office import Office
from .page import report

log = structlog.get_logger("sluice.check.budget")


@asynccontextmanager
async def answering(
    source: JetStreamLog, office: Office, now: Callable[[], Micros], active: Callable[[], bool]
) -> AsyncIterator[None]:
    """Answer while inside. Stand-bys are silent: what is promised is known to the active replica only.

    A check that cannot offer this goes on without: it judges, and that is its task.
    """

    async def answer(message: Msg) -> None:
        if active() and message.reply:
            at = now()
            body = {"at": rfc3339(at), "budgets": report(office, at)}
            await message.respond(msgspec.json.encode(body))

    async def complain(error: Exception) -> None:
        log.warning("query.budgets", error=str(error) or type(error).__name__)

    subject = f"{source.cell.prefix}query.budgets"
    try:
        connection = await nats.connect(
            source.url.split(","),
            name="check-budget-query",
            error_cb=complain,
            max_reconnect_attempts=-1,
        )
        await connection.subscribe(subject, cb=answer)
    except (NatsError, OSError, TimeoutError) as error:
        await complain(error)
        yield
        return
    try:
        yield
    finally:
        await connection.close()
