"""`sluice replay state|diff|index`: the whole cell at any point of a log."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sluice.cli.cell.log_options import (
    about_a_log,
    at_option,
    bar,
    output_option,
    plain_errors,
    progress,
    sequence_of,
    show_json,
    source_of,
)
from sluice.cli.kit import state_tables as tables
from sluice.cli.kit.errors import EXIT_USAGE, CliError
from sluice.cli.kit.output import to_yaml
from sluice.cli.kit.terminal import echo
from sluice.events.codec import rfc3339
from sluice.replay.source import time_travel
from sluice.replay.source.moments import moment_of
from sluice.replay.source.source import FileSource, Source
from sluice.replay.views import describe, overview
from sluice.replay.views import diff as differing


@click.command("state")
@click.argument("name", required=False)
@at_option()
@about_a_log
@output_option()
@click.option(
    "--show",
    "sections",
    multiple=True,
    type=click.Choice(list(describe.SECTIONS)),
    help="All of this kind, and nothing else; may be given more than once.",
)
@click.option("--no-snapshots", is_flag=True, help="Fold from the start.")
def state(
    source: Source,
    name: str | None,
    at: str | None,
    output: str,
    sections: tuple[str, ...],
    no_snapshots: bool,
) -> None:
    """Show the whole cell as it was: queues, jobs, workloads, variants, slices, checks, configuration.

    With NAME, all that is known of one job, workload, queue, cohort, flavor or admission check; where
    several things have that name, cohort/NAME or queue/NAME means one of them.

    \b
    Examples:
      sluice replay state --at 48213
      sluice replay state team-a/train --at 2026-01-06T14:03Z
      sluice replay state cohort/company
      sluice replay state --show variants --show checks
    """
    if name and sections:
        raise CliError("want a NAME or --show, not both", exit_code=EXIT_USAGE)
    seq = sequence_of(source, at)
    head: dict[str, Any] = {"sequence": seq, "at": rfc3339(moment_of(source, seq))}
    with progress(source, "Folding", seq) as show:
        found = _state(source, seq, name, sections, output, snapshots=not no_snapshots, show=show)
    if output == "json":
        show_json(head | found)
    elif name:
        echo(to_yaml(head | found).rstrip())
    elif sections:
        echo(f"State after sequence {seq}, {head['at']}")
        for section in dict.fromkeys(sections):
            echo("")
            _show_section(section, found[section])
    else:
        echo("\n".join(tables.state_lines(found, seq, head["at"])))


def _show_section(name: str, found: dict[str, Any]) -> None:
    if not found:
        echo(f"There is nothing in {name}.")
    elif name == "configuration":
        echo(to_yaml(found).rstrip())
    else:
        echo("\n".join(tables.section_lines(name, found)))


def _state(
    source: Source,
    seq: int,
    name: str | None,
    sections: tuple[str, ...],
    output: str,
    *,
    snapshots: bool,
    show: Callable[[int], None],
) -> dict[str, Any]:
    if name:
        return overview.look_at(source, seq, name, snapshots=snapshots, progress=show)
    if sections or output == "json":
        wanted = dict.fromkeys(sections) or describe.SECTIONS
        return overview.look(source, seq, wanted, snapshots=snapshots, progress=show)
    return overview.overview(source, seq, snapshots=snapshots, progress=show)


@click.command()
@click.argument("before", metavar="SEQ|TIME")
@click.argument("after", metavar="SEQ|TIME")
@about_a_log
@output_option()
def diff(source: Source, before: str, after: str, output: str) -> None:
    """Show what changed between two points, per kind.

    Who was admitted, evicted, migrated, resized or finished; which jobs came and went; checks, queues'
    numbers, configuration.

    \b
    Examples:
      sluice replay diff 4711 4800
      sluice replay diff 2026-01-06T14:00Z 2026-01-06T15:00Z -o json
    """
    first, last = sequence_of(source, before), sequence_of(source, after)
    with progress(source, "Folding", max(first, last)) as show:
        states_ = overview.both(source, first, last, progress=show)
    with bar("Comparing", differing.STEPS) as show:
        found = overview.compared(*states_, progress=show)
    moments = [f"{seq}, {rfc3339(moment_of(source, seq))}" for seq in (first, last)]
    if output == "json":
        show_json({"before": first, "after": last, **differing.whole(found)})
    else:
        echo("\n".join(tables.difference_lines(found, *moments)))


@click.command("index")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--every", type=click.IntRange(1), default=20_000, show_default=True, help="Events.")
@click.pass_context
def index(ctx: click.Context, file: Path, every: int) -> None:
    """Store snapshots beside an exported log, so that states in it are found at once."""
    with plain_errors():
        source = source_of(ctx, str(file))
        assert isinstance(source, FileSource)
        with progress(source, "Folding") as show:
            count = time_travel.index(source, every, show)
    echo(f"{count} snapshots in {source.sidecar.directory}")
