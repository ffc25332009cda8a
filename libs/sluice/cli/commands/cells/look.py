"""`sluice cells list` and `describe`: what the dispatcher knows of cells, now or then."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from sluice.cli.cell.log_options import about_a_log, at_option, progress, sequence_of
from sluice.cli.cell.name_completion import complete_cells
from sluice.cli.kit.describe_format import Lines
from sluice.cli.kit.describe_format import field as line
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.output import to_json, to_yaml
from sluice.cli.kit.table import Column, render
from sluice.cli.kit.terminal import echo
from sluice.replay.source.source import Source
from sluice.replay.source.suggest import did_you_mean
from sluice.replay.views.cells import CellRow, JobRow, cells_of, dispatch_at

STATES = (
    ("Running", ("Running",)),
    ("Held", ("Held", "Starting")),
    ("Waiting", ("Asked", "Waiting")),
    ("Leaving", ("Leaving", "Abandoned")),
)
"""What is counted of jobs, and which of their states that is."""

COLUMNS: Sequence[Column[CellRow]] = (
    Column("NAME", lambda row: row.name),
    Column("STATE", lambda row: row.state),
    Column("SINCE", lambda row: row.since),
    Column("DRAINED", lambda row: row.drained),
    *(
        Column(title.upper(), lambda row, states=states: str(row.count(*states)), right=True)  # type: ignore[misc]
        for title, states in STATES
    ),
    Column("ORPHANS", lambda row: str(len(row.orphans)), wide=True, right=True),
    Column("LOCATION", lambda row: row.location, wide=True),
    Column("CHECKS", lambda row: ",".join(row.checks) or "<none>", wide=True),
    Column("KNOWN TO", lambda row: str(row.upto), wide=True, right=True),
    Column("REASON", lambda row: row.message, wide=True),
)

JOBS: Sequence[Column[JobRow]] = (
    Column("JOB", lambda row: row.job),
    Column("STATE", lambda row: f"{row.note.state} (growth)" if row.note.growth else row.note.state),
    Column("SINCE", lambda row: row.note.since),
    Column("RUNG", lambda row: row.note.rung),
    Column("PODS", lambda row: str(sum(row.note.pods.values())), right=True),
    Column("THERE", lambda row: row.note.job),
    Column("MESSAGE", lambda row: row.note.message or row.note.edit_refused),
)


def _rows(source: Source, at: str | None) -> list[CellRow]:
    seq = sequence_of(source, at)
    with progress(source, "Reading", seq) as show:
        return cells_of(dispatch_at(source, seq, show))


@click.command("list")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    help="How to show them.",
)
@at_option()
@about_a_log
def list_cells(source: Source, output: str, at: str | None) -> None:
    """List cells: whether they are in reach, since when, and how many jobs they have.

    RUNNING runs there. HELD has quota there and waits for this cell, WAITING is asked for and has none
    yet, LEAVING is being taken back. A cell is Unknown until its link has reached it once: the dispatcher's
    log says why (is there a `<location>.json` in its folder of links?).
    """
    rows = _rows(source, at)
    if output in ("json", "yaml"):
        plain = [_plain(row) for row in rows]
        echo(to_json(plain) if output == "json" else to_yaml(plain).rstrip("\n"))
    elif rows:
        echo("\n".join(render(rows, COLUMNS, wide=output == "wide")))
    else:
        echo("No cells: this one places no jobs elsewhere (it has no MultiKueueCluster).", err=True)


def _plain(row: CellRow) -> dict[str, Any]:
    counts = {title.lower(): row.count(*states) for title, states in STATES}
    found = asdict(row)
    del found["jobs"]
    return {**found, "counts": counts}


@click.command("describe")
@click.argument("cell", metavar="NAME", shell_complete=complete_cells)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text")
@at_option()
@about_a_log
def describe_cell(source: Source, cell: str, output: str, at: str | None) -> None:
    """Show a cell: its link, and each job that is asked for, waits or runs there, and since when."""
    rows = {row.name: row for row in _rows(source, at)}
    row = rows.get(cell)
    if row is None:
        raise CliError(f"cell {cell!r} not found{did_you_mean(cell, sorted(rows))}")
    if output == "text":
        echo("\n".join(_description(row)))
        return
    plain = {**_plain(row), "jobs": [asdict(job) for job in row.jobs]}
    echo(to_json(plain) if output == "json" else to_yaml(plain).rstrip("\n"))


def _description(row: CellRow) -> Lines:
    reason = f": {row.message}" if row.message else ""
    since = f" since {row.since}" if row.since else ""
    drained = {"": "no", "stay": "its jobs stay", "move": "its jobs go elsewhere"}[row.drained]
    lines = [
        line("Name", row.name),
        line("State", f"{row.state}{since}{reason}"),
        line("Drained", f"{drained}, since {row.drained_since}" if row.drained else drained),
        line("Link", f"{row.location}.json"),
        line("Checks", ", ".join(row.checks) or "<none>: no ladder names it"),
        line("Known to", f"sequence {row.upto} of its log"),
        line("Orphans", ", ".join(row.orphans) or "<none>"),
    ]
    if not row.jobs:
        return [*lines, line("Jobs", "<none>")]
    return [*lines, "Jobs:", *("  " + text for text in render(row.jobs, JOBS))]
