"""`sluice replay verify|bisect`: is what we run still deciding as it did, and keeping what it promises?"""

import sys

import click

from sluice.cli.cell.log_options import (
    about_a_log,
    output_option,
    progress,
    show_json,
)
from sluice.cli.kit import run_text
from sluice.cli.kit.durations import utc
from sluice.cli.kit.errors import EXIT_USAGE, CliError
from sluice.cli.kit.terminal import echo
from sluice.core.deciders import OF_MANAGERS
from sluice.replay.lint import lint
from sluice.replay.simulate import report
from sluice.replay.source.source import Source
from sluice.replay.source.suggest import did_you_mean
from sluice.replay.source.time_travel import deciders
from sluice.replay.verify import whole_log

CHECKS = (*lint.INVARIANTS, *lint.WARNINGS)


@click.command()
@about_a_log
@output_option()
@click.option("--service", "writers", multiple=True, help="Only this one: scheduler, slices. Default: all.")
@click.option("--from", "start", type=click.Choice(["start", "snapshot"]), default="start", show_default=True)
@click.option("--from-seq", type=click.IntRange(1), help="With --from snapshot: the newest not after this.")
def verify(
    source: Source,
    output: str,
    writers: tuple[str, ...],
    start: str,
    from_seq: int | None,
) -> None:
    """Decide every commit of every service again, all services at once.

    The first difference ends a service's check, with exit code 1.
    """
    ours = deciders()
    known = {decider.writer: decider for decider in (*ours, *(kind() for kind in OF_MANAGERS))}
    for writer in writers:
        if writer not in known:
            raise CliError(f"no service {writer!r}.{did_you_mean(writer, known)}", exit_code=EXIT_USAGE)
    starts: list[whole_log.Start] = []
    # A cell that manages no others has nothing of those who would.
    said = [writer for writer in known if known[writer] in ours or any(source.read(1, None, (writer,)))]
    for writer in writers or said:
        fold = source.snapshot(known[writer], from_seq or source.end) if start == "snapshot" else None
        starts.append((known[writer], fold))
    with progress(source, "Deciding") as show:
        found = whole_log.check_all(source, starts, show)
    if output == "json":
        show_json([report.checked(checked) for checked in found])
    else:
        for checked in found:
            echo("\n".join(run_text.checked_lines(checked)))
    if any(checked.divergence is not None for checked in found):
        sys.exit(1)


@click.command()
@click.option(
    "--invariant",
    "name",
    required=True,
    help=f"One of {', '.join({**lint.INVARIANTS, **lint.WARNINGS})}.",
)
@about_a_log
@output_option()
def bisect(source: Source, name: str, output: str) -> None:
    """Find the first event that broke an invariant; exit code 1 if there is one."""
    if name not in CHECKS:
        near = did_you_mean(name, CHECKS)
        raise CliError(f"no invariant {name!r}: there are {', '.join(CHECKS)}.{near}", exit_code=EXIT_USAGE)
    with progress(source, "Looking") as show:
        found = lint.first_violation(source, name, show)
    if output == "json":
        show_json(None if found is None else lint.plain(found))
    elif found is None:
        echo(f"{name} held throughout {source.first} to {source.end}.")
    else:
        echo(f"{name} was broken by {found.seq}, {utc(found.at)}: {found.text}")
    if found is not None:
        sys.exit(1)
