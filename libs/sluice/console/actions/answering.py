"""Answers of the HTTP API about actions: first what one would do, then what came of it."""

import hmac
from typing import Any

import structlog

from sluice.console import heavy
from sluice.console.asked import Asked
from sluice.console.handlers import Handlers
from sluice.console.problems import ForbiddenError, ProblemError
from sluice.events.codec import rfc3339
from sluice.protocol.subjects import job_suffix

from .actor import Actor
from .plan import Plan, plan
from .shapes import TOKEN_HEADER, ActionDone, ActionPreview, ActionRequest

log = structlog.get_logger("sluice.console.actions")


async def preview(handlers: Handlers, asked: Asked) -> ActionPreview:
    """Return the command of an action, and what it would do; nothing is done."""
    actor = _allowed(handlers, asked)
    request, planned = await _planned(handlers, asked)
    warnings = await actor.check(planned.manifest) if planned.manifest is not None else []
    source = handlers.cell.source
    key = ("action", request.action, request.name, request.namespace, planned.command)
    return await handlers.heavy(
        asked,
        ActionPreview,
        key,
        lambda seq: {"effects": heavy.effects(source, seq, planned.change)},
        command=planned.command,
        summary=planned.summary,
        version=planned.version,
        warnings=warnings,
    )


async def act(handlers: Handlers, asked: Asked) -> ActionDone:
    """Do it."""
    actor = _allowed(handlers, asked)
    request, planned = await _planned(handlers, asked)
    done = await actor.do(planned, f"{request.namespace}/{request.name}", asked.user.name)
    log.info("acted", user=asked.user.name, action=request.action, name=request.name, seq=done.seq)
    upto, at = await handlers.cell.ask(0, lambda world: (world.seq, world.at))
    return ActionDone(
        upto=upto, time=rfc3339(at) if at else "", live=True, lag=handlers.cell.lag, **done._asdict()
    )


def _allowed(handlers: Handlers, asked: Asked) -> Actor:
    """Return who acts.

    Raises:
        ForbiddenError: nobody does, not for this user, or another site's page asks.
    """
    if handlers.actor is None:
        raise ForbiddenError("this console only shows", "CONSOLE_ACTIONS=1 lets it act")
    if asked.user.role != "admin":
        raise ForbiddenError(f"{asked.user.name or 'this user'} may look, and not act")
    given = asked.request.headers.get(TOKEN_HEADER, "")
    if not hmac.compare_digest(given.encode(), handlers.access.action_token.encode()):
        raise ForbiddenError(f"want {TOKEN_HEADER}, as GET /api/v1/whoami says")
    return handlers.actor


async def _planned(handlers: Handlers, asked: Asked) -> tuple[ActionRequest, Plan]:
    request, cell = asked.body(ActionRequest), handlers.cell
    submitted = await _manifest(handlers, request) if request.action == "priority" else None
    return request, await cell.ask(0, lambda world: plan(request, world, submitted))


async def _manifest(handlers: Handlers, request: ActionRequest) -> dict[str, Any] | None:
    """Return a job's manifest, as it was submitted.

    Raises:
        ProblemError: it does not say any more how large the job is.
    """
    key = f"{request.namespace}/{request.name}"
    place, manifest = await handlers.submitted(key, 0, handlers.cell.source)
    suffix, source = job_suffix(request.namespace, request.name), handlers.cell.source

    def scaled() -> bool:
        later = (entry for batch in source.read(place + 1, None, (suffix,)) for entry in batch)
        return any(b'"JobScaled"' in entry.payload for entry in later)

    if place and await handlers.cell.read(scaled):
        raise ProblemError(f"{key} was scaled since it was submitted, and would have its first size again")
    return manifest if isinstance(manifest, dict) else None
