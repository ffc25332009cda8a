"""`sluice status`."""

import contextlib
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from sluice.api.errors import UNREADABLE
from sluice.cli.cell.client import Api, find_target, run
from sluice.cli.cell.services import services
from sluice.cli.kit.columns import is_active, name
from sluice.cli.kit.durations import human
from sluice.cli.kit.errors import EXIT_UNAVAILABLE, CliError
from sluice.cli.kit.output import to_json
from sluice.cli.kit.resources import BY_KIND
from sluice.cli.kit.settings import Settings
from sluice.cli.kit.table import Column, one_line, render
from sluice.cli.kit.terminal import echo
from sluice.local.cell_directory import find
from sluice.local.process_start import STOPPED, state_of
from sluice.protocol.query import ListRequest

from .supervisor import SERVICES, tail

Row = dict[str, Any]


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@click.pass_context
def status(ctx: click.Context, output: str) -> None:
    """Show how the cell is: services with their role and place in the log, agents, processes.

    A service of which no replica answers is `down`. Of a cell on this machine it is told why: its process
    has ended, or is stopped, or what its log says last. Admission checks without a controller are named.
    Exits 4 when the server or the api service does not answer, 1 when a service has no leader.
    """
    target = find_target(ctx.find_object(Settings) or Settings())

    async def work(api: Api) -> tuple[list[Row], Row, CliError | None]:
        found = await services(api)
        try:
            about = await api.status()
            return found, {**about, "checksWithoutController": await _uncontrolled(api)}, None
        except CliError as error:
            return found, {}, error

    found, about, failure = run(ctx, work)
    local = _processes()
    found = with_absent(found)
    console = _console()
    silent = [str(row["service"]) for row in found if row.get("role") == "down"]
    wanted = dict.fromkeys([*silent, *leaderless(found)])
    reasons = {each: why for each in wanted if (why := _why_not(each, local))}
    if output == "json":
        shown = {"url": target.shown, **about, "services": found, "processes": local, "reasons": reasons}
        echo(to_json(shown | ({"console": console} if console else {})))
    else:
        echo("\n".join(_lines(target.shown, target.cell, found, about, local)))
        if console:
            echo(f"\nConsole: {console}")
        for service, why in reasons.items():
            echo(f"\n{service} {why}")
    if failure is not None:
        raise CliError(failure.message, hint=failure.hint, exit_code=EXIT_UNAVAILABLE)
    if missing := leaderless(found):
        raise CliError(f"no leader: {', '.join(missing)}")


def with_absent(found: list[Row]) -> list[Row]:
    """Return the rows with one more for each service that a cell needs and of which no replica answers.

    A service that cannot follow the log ends, is started again, and answers for moments only.
    """
    if not found:
        return []
    answering = {row["service"] for row in found}
    absent = [service for each in SERVICES if (service := each.replace("_", "-")) not in answering]
    return sorted(
        [*found, *({"service": service, "role": "down"} for service in absent)], key=lambda r: r["service"]
    )


def leaderless(found: list[Row]) -> list[str]:
    """Return the services that decide, and of which no replica leads."""
    names = dict.fromkeys(
        row["service"] for row in found if row.get("role") != "serving" and row["service"] != "api"
    )
    leading = {row["service"] for row in found if row.get("role") == "leader"}
    return [name for name in names if name not in leading]


def _lines(url: str, cell: str, found: list[Row], about: Row, local: list[Row]) -> list[str]:
    seq, end = about.get("seq", 0), about.get("end", 0)
    counts = about.get("counts", {})
    jobs = f", {counts.get('jobs', 0)} jobs, {about.get('rejected', 0)} messages rejected" if counts else ""
    log = f"log at {end or seq}{jobs}" if about else "log not known, as the api service does not answer"
    lines = [f"Cell {cell!r} at {url}: {log}", *_stored(about.get("log")), ""]
    columns = [
        Column[Row]("SERVICE", lambda row: str(row["service"])),
        Column[Row]("ROLE", lambda row: str(row.get("role", ""))),
        Column[Row]("AT", lambda row: str(row.get("upto", "")), right=True),
        Column[Row]("LAG", lambda row: str(row.get("lag", "")), right=True),
        Column[Row]("EVENTS", lambda row: str(row.get("events", "")), right=True),
        Column[Row]("COMMITS", lambda row: str(row.get("commits", "")), right=True),
        Column[Row]("TAKEOVERS", lambda row: str(row.get("takeovers", "")), right=True),
        Column[Row]("PID", lambda row: str(row.get("pid", "")), right=True),
    ]
    lines += render(found, columns) if found else ["No service answers."]
    lines += [
        f"{row['service']}: {_retention(row)}" for row in found if "archived" in row or row.get("error")
    ]
    agents = about.get("agents", [])
    nobody = "No agent has been seen." if about else "Which agents there are is not known."
    lines += ["", *(render(agents, BY_KIND["Agent"].columns) if agents else [nobody])]
    if unheard := about.get("checksWithoutController", []):
        lines += ["", f"Admission checks without a controller: {', '.join(unheard)} (sluice check list)"]
    if local:
        processes = [
            Column[Row]("PROCESS", lambda row: row["label"]),
            Column[Row]("PID", lambda row: str(row["pid"]), right=True),
            Column[Row]("STATE", lambda row: str(row["state"])),
            Column[Row]("RESTARTS", lambda row: str(row["restarts"]), right=True),
            Column[Row]("LOG", lambda row: row["log"]),
        ]
        lines += ["", *render(local, processes)]
    return lines


def _stored(said: Row | None) -> list[str]:
    """Return how the server has the log, as far as the api service says it."""
    if not said:
        return []
    copies = "" if said["copies"] == 1 else f", {said['current']} of {said['copies']} copies current"
    return [f"Log from {said['first']} on: {said['messages']} messages, {said['bytes'] / 1e6:.1f} MB{copies}"]


def _retention(row: Row) -> str:
    """Return what the archivist says: where log and archive stand, or why it could not go on."""
    if row.get("error"):
        return f"nothing archived or cut: {one_line(str(row['error']), 300)}"
    base = f", base of {row['base']}" if row.get("base") else ""
    limit = f" ({one_line(str(row['limit']), 200)})" if row.get("limit") else ""
    return f"log from {row['first']} on, archived up to {row['archived']}{base}{limit}"


async def _uncontrolled(api: Api) -> list[str]:
    """Return the admission checks that wait for a controller to appear."""
    found = await api.list(ListRequest(kind="AdmissionCheck"))
    return [name(check) for check in found.items if is_active(check) == "False"]


def _why_not(service: str, local: list[Row]) -> str:
    """Return what keeps a service from answering, "" if nobody knows or it runs on another machine.

    Its process is stopped or has ended, or what it said when it last ended.
    """
    for row in local:
        if str(row["label"]).rstrip("-0123456789") != service:
            continue
        if row["state"] == STOPPED:
            return (
                f"does not answer: process {row['pid']} is stopped; `kill -CONT {row['pid']}` lets it go on"
            )
        for line in reversed(tail(Path(row["log"]), LINES).splitlines()):
            with contextlib.suppress(*UNREADABLE):
                said = msgspec.json.decode(line, type=_Said)
                if said.event == "cannot go on":
                    return f"cannot go on: {one_line(said.error, 400)}"
    return ""


class _Said(msgspec.Struct):
    event: str = ""
    error: str = ""


LINES = 200
"""Of a process's log that are looked at for why it ended."""


def _console() -> str:
    """Return where the console of the cell on this machine is, "" if it has none."""
    place = find(Path.cwd())
    state = place.running() if place is not None else None
    return "" if state is None else state.console


def _processes() -> list[Row]:
    place = find(Path.cwd())
    state = place.running() if place is not None else None
    if place is None or state is None:
        return []
    server = {
        "label": "nats-server",
        "pid": state.server_pid,
        "restarts": 0,
        "log": str(place.nats / "nats-server.log"),
    }
    supervisor = {
        "label": f"up ({human(time.time() - state.started_at)})",
        "pid": state.pid,
        "restarts": 0,
        "log": str(place.logs / "up.log"),
    }
    rows: list[Row] = [supervisor, server]
    rows += [{"label": p.label, "pid": p.pid, "restarts": p.restarts, "log": p.log} for p in state.processes]
    return [{**row, "state": state_of(row["pid"])} for row in rows]
