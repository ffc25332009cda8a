"""`sluice replay what-if`: what another configuration would have done."""

import sys
from pathlib import Path
from typing import Any

import click

from sluice.cli.cell.log_options import (
    archive_option,
    log_option,
    output_option,
    plain_errors,
    progress,
    sequence_of,
    show_json,
    source_of,
    write_picture,
)
from sluice.cli.kit import job_waits_text, run_text
from sluice.cli.kit.durations import utc
from sluice.cli.kit.errors import EXIT_USAGE, CliError
from sluice.cli.kit.files import read_plain
from sluice.cli.kit.terminal import echo
from sluice.replay.simulate import report
from sluice.replay.simulate import what_if as whatif
from sluice.replay.simulate.changes import Changes, parse_setting
from sluice.replay.simulate.cluster_traces import TraceSource, read_trace
from sluice.replay.source.moments import moment_of, time_of
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import RangeError


@click.command("what-if")
@log_option()
@archive_option()
@click.option("--set", "settings", multiple=True, metavar="KIND/NAME.PATH=VALUE", help="Another setting.")
@click.option("--apply", "files", multiple=True, type=click.Path(path_type=Path), help="Other manifests.")
@click.option("--drop", "drops", multiple=True, metavar="job/NAME|queue/NAME|KIND/NAME", help="Leave out.")
@click.option("--from", "since", metavar="SEQ|TIME", help="Changes hold from here on; default: the start.")
@click.option(
    "--jobs", type=click.Path(path_type=Path), help="Jobs of a trace instead: SWF or sacct --parsable2."
)
@click.option("--cpus", type=click.IntRange(1), help="With --jobs: what the machine has.")
@click.option("--limit", type=click.IntRange(1), help="With --jobs: only the first so many.")
@click.option(
    "--control/--no-control",
    default=True,
    help="Replay without the changes, too (default); else only the record is there to compare with.",
)
@click.option("--per-job", is_flag=True, help="Tell of each job how long it waits in the runs.")
@click.option("--job", "job", metavar="PATTERN", help="The same of these jobs only: [NAMESPACE/]NAME.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw the comparison.")
@output_option()
@click.pass_context
def what_if(
    ctx: click.Context,
    file: str | None,
    archive: str | None,
    settings: tuple[str, ...],
    files: tuple[Path, ...],
    drops: tuple[str, ...],
    since: str | None,
    jobs: Path | None,
    cpus: int | None,
    limit: int | None,
    control: bool,
    per_job: bool,
    job: str | None,
    svg: Path | None,
    output: str,
) -> None:
    """Run the log's jobs again in virtual time under other rules, and compare.

    Without changes it checks that the log decides itself again exactly.

    \b
    Examples:
      sluice replay what-if -l week.slog --set ClusterQueue/a.spec.cohortName=all
      sluice replay what-if -l week.slog --drop 'job/team-b/sweep-*'
      sluice replay what-if -l week.slog --drop job/team-b/huge --job mine
      sluice replay what-if --jobs trace.swf.gz --set ClusterQueue/q1.spec.queueingStrategy=StrictFIFO
    """
    with plain_errors():
        changes = Changes([parse_setting(text) for text in settings], _manifests(files), list(drops))
        if since and not changes:
            raise CliError(
                "--from says since when changes hold: want --set, --apply or --drop", exit_code=EXIT_USAGE
            )
        if not control and (jobs is not None or not changes):
            raise CliError(
                "--no-control compares changes with a log: want one, and --set, --apply or --drop",
                exit_code=EXIT_USAGE,
            )
        if jobs is not None and file is not None:
            raise CliError("want --log or --jobs, not both", exit_code=EXIT_USAGE)
        inputs = read_trace(jobs, cpus, limit) if jobs is not None else None
        if inputs is not None and inputs.left_out:
            echo(f"note: {inputs.left_out} entries that never ran are left out", err=True)
        source = source_of(ctx, file, archive) if inputs is None else TraceSource(inputs, str(jobs))
        if since:
            changes.since = _moment(source, since)
        with progress(source, "Playing") as show:
            found = whatif.what_if(source, changes, show, inputs=inputs, control=control)
        if svg is not None:
            from sluice.cli.kit import timeline_svg

            write_picture(svg, timeline_svg.comparison([(run.name, run.numbers) for run in found.runs]))
    _show(found, job or ("*" if per_job else None), output)
    if not found.reproduced:
        sys.exit(1)


def _show(found: whatif.WhatIf, jobs: str | None, output: str) -> None:
    """Print the comparison; *jobs*: a pattern of those whose waits are told, too."""
    if output == "json":
        show_json(report.compared(found, jobs))
        return
    echo("\n".join(run_text.compared_lines(found)))
    if jobs is not None:
        echo("\n".join(job_waits_text.lines(found, jobs)))


def _moment(source: Source, text: str) -> int:
    if isinstance(source, TraceSource):
        return time_of(text, source.inputs.end)
    if not text.isdigit():
        latest = moment_of(source, source.end)
        since = time_of(text, latest)
        if since > latest:
            end = f"{source.name} ends at {utc(latest)} UTC"
            raise RangeError(f"{end}, before {text}: nothing would change")
        return since
    seq = sequence_of(source, text)
    return int(next(entry.at for entries in source.read(seq) for entry in entries))


def _manifests(files: tuple[Path, ...]) -> list[dict[str, Any]]:
    found = []
    for path in files:
        documents = read_plain(path)
        if not any(documents):
            raise CliError(f"{path}: no manifest in it", exit_code=EXIT_USAGE)
        for document in documents:
            if not isinstance(document, dict):
                raise CliError(f"{path}: want manifests", exit_code=EXIT_USAGE)
            found.append(document)
    return found
