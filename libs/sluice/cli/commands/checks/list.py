"""`sluice check list` and `describe`: checks, who performs them, who waits for them."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import msgspec

from sluice.api.errors import UNREADABLE
from sluice.api.labels import ANSWER_TIMEOUT_SECONDS, answered_by_people
from sluice.cli.cell.client import Api, Target, run
from sluice.cli.kit.columns import condition, dig, is_active, name
from sluice.cli.kit.describe_format import Lines, conditions
from sluice.cli.kit.describe_format import field as line
from sluice.cli.kit.durations import age
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.output import to_json, to_yaml
from sluice.cli.kit.table import Column, Object, render
from sluice.cli.kit.terminal import echo
from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from sluice.protocol.checks import CONTROLLER, CheckRequest, ControllerHeartbeat
from sluice.protocol.dispatch import key_token
from sluice.protocol.query import ListRequest
from sluice.replay.source.suggest import did_you_mean

READ_S = 5.0
SHOWN = 10

_REQUESTS = msgspec.json.Decoder(CheckRequest)
_BEATS = msgspec.json.Decoder(ControllerHeartbeat)
Requests = dict[str, CheckRequest]


@dataclass(slots=True)
class Row:
    """One check, and what is asked of its controller. `requests` is None where they may not be read."""

    check: Object
    queues: list[str] = field(default_factory=list)
    requests: list[CheckRequest] | None = None

    def count(self, state: str) -> int | None:
        if self.requests is None:
            return None
        return sum(1 for request in self.requests if request.state == state)

    @property
    def controller(self) -> str:
        return str(dig(self.check, "spec", "controllerName", default=""))

    @property
    def terminating_since(self) -> str:
        """When it was deleted, while queues name it still; "" if it was not."""
        return str(dig(self.check, "metadata", "deletionTimestamp", default=None) or "")

    @property
    def active(self) -> str:
        return str(condition(self.check, "Active").get("status", "Unknown"))


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)


COLUMNS: Sequence[Column[Row]] = (
    Column("NAME", lambda row: name(row.check)),
    Column("CONTROLLER", lambda row: row.controller),
    Column("ACTIVE", lambda row: is_active(row.check)),
    Column("PENDING", lambda row: _number(row.count("Pending")), right=True),
    Column("APPROVED", lambda row: _number(row.count("Ready")), right=True),
    Column("QUEUES", lambda row: ",".join(row.queues) or "<none>"),
    Column("REASON", lambda row: _inactive(row.check), wide=True),
)


def _inactive(check: Object) -> str:
    found = condition(check, "Active")
    return "" if found.get("status") == "True" else str(found.get("message", ""))


@click.command("list")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    help="How to show them.",
)
@click.pass_context
def list_checks(ctx: click.Context, output: str) -> None:
    """List admission checks: their controllers, the queues that use them, and what waits.

    PENDING counts the workloads that wait for a verdict, APPROVED those that the check has let pass and
    that still hold their quota.
    """
    rows = run(ctx, _rows)
    if output in ("table", "wide"):
        if not rows:
            echo("No admission checks.", err=True)
        else:
            echo("\n".join(render(rows, COLUMNS, wide=output == "wide")))
        return
    plain = [_plain(row) for row in rows]
    echo(to_json(plain) if output == "json" else to_yaml(plain).rstrip("\n"))


def _plain(row: Row) -> dict[str, Any]:
    return {
        "name": name(row.check),
        "controller": row.controller,
        "active": row.active,
        "terminating": bool(row.terminating_since),
        "queues": row.queues,
        "pending": row.count("Pending"),
        "approved": row.count("Ready"),
    }


async def _rows(api: Api) -> list[Row]:
    checks = (await api.list(ListRequest(kind="AdmissionCheck", whole=True))).items
    queues = (await api.list(ListRequest(kind="ClusterQueue", whole=True))).items
    requests = await read_requests(api.target)
    rows = {name(check): Row(check, requests=None if requests is None else []) for check in checks}
    for queue in queues:
        for check, _ in used_by(queue):
            if check in rows:
                rows[check].queues.append(name(queue))
    for request in (requests or {}).values():
        row = rows.get(request.check)
        if row is not None and row.requests is not None:
            row.requests.append(request)
    return [rows[check] for check in sorted(rows)]


def used_by(queue: Object) -> list[tuple[str, list[str]]]:
    """Return the checks that a cluster queue uses, each with the flavors it is for (none: all)."""
    rules = dig(queue, "spec", "admissionChecksStrategy", "admissionChecks", default=())
    return [(str(rule.get("name", "")), list(rule.get("onFlavors") or ())) for rule in rules]


async def read_requests(target: Target) -> Requests | None:
    """Return what stands in the bucket of requests by key; None where it cannot be read."""
    log = JetStreamLog(target.url, target.cell, name="sluice-cli")
    found: dict[str, CheckRequest] = {}
    try:
        async with asyncio.timeout(READ_S):
            for key, value in (await Bucket(log, "checks").everything()).items():
                with contextlib.suppress(*UNREADABLE):
                    found[key] = _REQUESTS.decode(value)
    except (EventLogError, ConnectionError, TimeoutError):
        return None
    finally:
        await log.close()
    return found


async def read_heartbeat(target: Target, controller: str) -> ControllerHeartbeat | None:
    """Return the heartbeat of a controller's active replica; None when there is none to be seen."""
    log = JetStreamLog(target.url, target.cell, name="sluice-cli")
    try:
        found = await Bucket(log, "heartbeats", memory=True).get(f"{CONTROLLER}.{key_token(controller)}")
        return None if found is None else _BEATS.decode(found.value)
    except (EventLogError, ConnectionError, TimeoutError, *UNREADABLE):
        return None
    finally:
        await log.close()


@click.command("describe")
@click.argument("check")
@click.pass_context
def describe_check(ctx: click.Context, check: str) -> None:
    """Show an admission check: its controller, its queues, and who waits for it."""
    echo("\n".join(run(ctx, lambda api: _description(api, check))))


async def _description(api: Api, check: str) -> Lines:
    rows = {name(row.check): row for row in await _rows(api)}
    row = rows.get(check)
    if row is None:
        raise CliError(f"admissioncheck/{check} not found{did_you_mean(check, sorted(rows))}")
    spec: Mapping[str, Any] = dig(row.check, "spec", default={})
    parameters = spec.get("parameters")
    return [
        line("Name", check),
        line("Controller", row.controller),
        *await _replica(api, row.controller),
        *([line("Terminating", f"since {gone}: in use")] if (gone := row.terminating_since) else []),
        line("Active", row.active),
        line("Parameters", f"{parameters['kind']}/{parameters['name']}" if parameters else "<none>"),
        line("Preemption", spec.get("preemptionPolicy") or "Anytime"),
        line("Answer timeout", await _answer_timeout(api, row.check)),
        *await _queues(api, check),
        line("Requests", _counts(row)),
        *_waiting(row),
        *conditions(row.check),
    ]


async def _answer_timeout(api: Api, check: Object) -> str:
    """Return how long the check may go unanswered, and who says so."""
    said, where = (
        dig(check, "metadata", "annotations", ANSWER_TIMEOUT_SECONDS, default=None),
        "its annotation",
    )
    if said is None and answered_by_people(str(dig(check, "spec", "controllerName", default=""))):
        return "<none>"
    if said is None:
        settings, where = await api.get("Configuration", "default"), "the Configuration"
        said = dig(settings or {}, "spec", "admissionChecks", "answerTimeoutSeconds", default=0)
    return f"{said} s, by {where}" if int(said) else "<none>"


async def _replica(api: Api, controller: str) -> Lines:
    if answered_by_people(controller):
        return [line("Answered by", "people: sluice check approve, retry, reject")]
    beat = await read_heartbeat(api.target, controller)
    if beat is None or not beat.instance:
        return [line("Active replica", "<none>")]
    version = f", version {beat.version}" if beat.version else ""
    return [line("Active replica", f"{beat.instance} (pid {beat.pid} on {beat.host or '?'}{version})")]


async def _queues(api: Api, check: str) -> Lines:
    found = []
    for queue in (await api.list(ListRequest(kind="ClusterQueue", whole=True))).items:
        for used, flavors in used_by(queue):
            if used == check:
                found.append(f"{name(queue)} ({', '.join(flavors)})" if flavors else name(queue))
    return [line("Queues", ", ".join(found) or "<none>")]


def _counts(row: Row) -> str:
    if row.requests is None:
        return "not known: the bucket of requests cannot be read"
    return f"{row.count('Pending')} pending, {row.count('Ready')} approved"


def _waiting(row: Row) -> Lines:
    """Return those that have waited longest."""
    pending = [request for request in row.requests or () if request.state == "Pending"]
    if not pending:
        return []
    pending.sort(key=lambda request: (request.since or request.reserved_at, request.workload.uid))
    lines = ["Waiting:", *("  " + text for text in render(pending[:SHOWN], _WAITING))]
    if len(pending) > SHOWN:
        lines.append(f"  ... and {len(pending) - SHOWN} more")
    return lines


def _age(request: CheckRequest) -> str:
    import time

    from sluice.events.codec import rfc3339

    since = request.since or request.reserved_at
    return age(rfc3339(since), time.time()) if since else ""


_WAITING: Sequence[Column[CheckRequest]] = (
    Column("WORKLOAD", lambda request: f"{request.workload.namespace}/{request.workload.name}"),
    Column("ATTEMPT", lambda request: str(request.attempt), right=True),
    Column("RETRIES", lambda request: str(request.retry_count), right=True),
    Column("WAITING", _age),
    Column("PREEMPTIONS", lambda request: "pending" if request.preemptions_pending else ""),
)
