"""`sluice events`: what happened to one object."""

import click

from sluice.cli.cell.client import Api, run
from sluice.cli.cell.lookup import existing
from sluice.cli.cell.name_completion import complete_targets
from sluice.cli.cell.selectors import namespace_option
from sluice.cli.kit.columns import dig
from sluice.cli.kit.describe_format import omitted
from sluice.cli.kit.durations import clock
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.resources import resource_named
from sluice.cli.kit.table import Column, render
from sluice.cli.kit.terminal import echo
from sluice.protocol.query import HistoryRequest, Object
from sluice.replay.history.event_text import describe

COLUMNS = (
    Column[Object]("SEQ", lambda entry: str(entry["seq"]), right=True),
    Column[Object]("TIME", lambda entry: clock(entry["at"])),
    Column[Object]("EVENT", lambda entry: str(entry["event"].get("type", ""))),
    Column[Object]("CAUSE", lambda entry: str(entry["event"].get("cause") or ""), right=True),
    Column[Object]("DETAIL", lambda entry: _detail(entry)),
)


_WORKLOADS = ("Workload", "Variant", "Slice")
"""Kinds under which people know workloads."""


def _detail(entry: Object) -> str:
    event = entry["event"]
    whose = event.get("workload", "")
    # A preemptor's history has whom it preempted.
    # Likewise a slice's has the further one that was withdrawn.
    told = event.get("type") in ("Preempted", "WorkloadSliceWithdrawn")
    other = f"{whose} " if told and whose != entry["workload"] else ""
    return f"{other}{describe(event)}"


@click.command()
@click.argument(
    "arguments", nargs=-1, required=True, metavar="TYPE NAME | TYPE/NAME", shell_complete=complete_targets
)
@namespace_option()
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Newest so many.")
@click.pass_context
def events(ctx: click.Context, arguments: tuple[str, ...], namespace: str, limit: int) -> None:
    """Show what happened to a job or workload: each event, and which message brought it about.

    \b
    Examples:
      sluice events job train
      sluice log show SEQ         the whole message behind a line
    """
    word, name = _target(arguments)
    resource = resource_named(word)
    if resource.kind not in ("Job", *_WORKLOADS):
        raise CliError(
            "events are kept of jobs and workloads, variants and slices among them",
            hint="`sluice log tail MATCH` finds others.",
        )

    async def work(api: Api) -> None:
        obj = await existing(api, resource, name, namespace)
        kind = "Workload" if resource.kind in _WORKLOADS else resource.kind
        found = await api.history(HistoryRequest(kind=kind, name=name, namespace=namespace, limit=limit))
        # What has no event of its own is a second word on the one before, for `describe`.
        items = [entry for entry in found.items if entry["event"]]
        if items:
            for line in omitted(found, obj["metadata"]):
                echo(line, err=True)
            echo("\n".join(render(items, COLUMNS)))
        else:
            said = dig(obj, "status", "message")
            echo(f"No workload was made of it, so there are no events{f': {said}' if said else ''}.")

    run(ctx, work)


def _target(arguments: tuple[str, ...]) -> tuple[str, str]:
    if len(arguments) == 1 and "/" in arguments[0]:
        word, _, name = arguments[0].partition("/")
        return word, name
    if len(arguments) == 2:
        return arguments[0], arguments[1]
    raise CliError("say one object", hint="sluice events job NAME", exit_code=2)
