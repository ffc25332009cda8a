"""Does what is planned: asks the api service, or speaks to the log, as the CLI and other programs do."""

from typing import Any, NamedTuple

import msgspec

from sluice.console.problems import ForbiddenError, ProblemError, UnavailableError
from sluice.log.errors import AppendRefusedError, EventLogError, LogUnavailableError
from sluice.protocol import query
from sluice.protocol.subjects import Cell
from sluice.sdk import AsyncClient, ManifestError, NotPublishedError

from .plan import ConflictError, Plan

ANSWER_S = 15.0


class Done(NamedTuple):
    """Where in the log it stands, what it came to, and what the api service has to say of it."""

    seq: int
    outcome: str
    warnings: list[str]


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


class Actor:
    """Speaks to a cell with a key whose role may change it; the console itself reads with another one."""

    def __init__(self, url: str, cell: str) -> None:
        self._url, self._cell = url, cell

    async def check(self, manifest: dict[str, Any]) -> list[str]:
        """Have the api service look at a manifest; return its warnings.

        Raises:
            ProblemError: it would be refused.
        """
        return (await self._apply(manifest, "", dry_run=True)).warnings

    async def do(self, plan: Plan, job: str, user: str) -> Done:
        """Say what is planned, in the name of *user*; *job* is whom an event is about.

        Raises:
            ProblemError: it was refused, or could not be said.
        """
        if plan.manifest is not None:
            return await self._apply(plan.manifest, user, dry_run=False)
        try:
            async with self._client(user) as client:
                if plan.event is not None:
                    return Done(await client.publish(job, plan.event), "published", [])
                assert plan.job is not None
                namespace = job.partition("/")[0]
                return Done((await client.submit(plan.job, namespace=namespace)).seq, "published", [])
        except ManifestError as error:
            raise ProblemError(str(error)) from None
        except NotPublishedError as error:
            if isinstance(error.__cause__, AppendRefusedError):
                raise _not_allowed(error.__cause__) from None
            raise UnavailableError(str(error)) from None

    def _client(self, user: str) -> AsyncClient:
        return AsyncClient(self._url, self._cell, source=f"sluice-console/{user or 'anonymous'}")

    async def _apply(self, manifest: dict[str, Any], user: str, *, dry_run: bool) -> Done:
        request = query.ApplyRequest(objects=[manifest], dry_run=dry_run)
        try:
            async with self._client(user) as client:
                connection = await client.log.connection()
                subject = Cell(self._cell).subject("api.apply")
                frame = await connection.request(subject, msgspec.json.encode(request), timeout_s=ANSWER_S)
        except AppendRefusedError as error:
            raise _not_allowed(error) from None
        except LogUnavailableError:
            raise UnavailableError("the api service does not answer", "see `sluice status`") from None
        except (EventLogError, ConnectionError, TimeoutError) as error:
            raise UnavailableError(
                f"the api service does not answer: {error or type(error).__name__}"
            ) from None
        return _done(frame.payload)


def _done(payload: bytes) -> Done:
    """Return what the api service has answered about one object.

    Raises:
        ProblemError: it refused.
    """
    if msgspec.json.decode(payload, type=_Kind).kind == "Status":
        raise _refused(msgspec.json.decode(payload, type=query.Status))
    answer = msgspec.json.decode(payload, type=query.ChangeAnswer)
    (result,) = answer.results
    if result.status is not None:
        raise _refused(result.status)
    changed = result.outcome != "unchanged"
    return Done(answer.seq if changed else 0, result.outcome, result.warnings)


def _refused(status: query.Status) -> ProblemError:
    if status.reason == "Conflict":
        return ConflictError(status.message, "look again at what this would do")
    problem = ProblemError(status.message)
    problem.code = status.reason
    return problem


def _not_allowed(error: AppendRefusedError) -> ForbiddenError:
    return ForbiddenError(
        f"the server does not let the console do this: {error.detail}",
        "CONSOLE_ACTIONS_CREDENTIALS names the key of a role that may",
    )
