"""`sluice replay`: state at any point, what changed, deciding again, other rules. Reads only."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import yaml

from sluice.core.model import World
from sluice.core.scheduler import Scheduler
from sluice.events.codec import rfc3339
from sluice.replay import causes, checking, differing, linting, objects, overview, picture, report, tables
from sluice.replay.changes import Changes, parse_setting
from sluice.replay.inputs_foreign import TraceSource, read_trace
from sluice.replay.source import FileSource, Source
from sluice.replay.states import RangeError, configured_at, deciders, index, scheduler_at
from sluice.replay.whatif import what_if
from sluice.replay.why import find

from .errors import EXIT_USAGE, CliError
from .output import to_yaml
from .replay_options import (
    at_option,
    clock,
    log_option,
    moment_of,
    output_option,
    plain_errors,
    progress,
    sequence_of,
    show_json,
    source_of,
    time_of,
)
from .suggest import did_you_mean
from .why import happening_line

CHECKS = (*linting.INVARIANTS, *linting.WARNINGS)


@click.group()
def replay() -> None:
    """Look at the past of a cell, or of an exported log, and at other pasts.

    All of it only reads: a running cell does not notice.
    """


@replay.command("state")
@click.argument("name", required=False)
@at_option()
@log_option()
@output_option()
@click.option(
    "--show",
    "sections",
    multiple=True,
    type=click.Choice(list(objects.SECTIONS)),
    help="All of this kind, and nothing else; may be given more than once.",
)
@click.option("--no-snapshots", is_flag=True, help="Fold from the start.")
@click.pass_context
def state_command(
    ctx: click.Context,
    name: str | None,
    at: str | None,
    file: Path | None,
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
    with plain_errors():
        source = source_of(ctx, file)
        seq = sequence_of(source, at)
        head: dict[str, Any] = {"sequence": seq, "at": rfc3339(moment_of(source, seq))}
        with progress(source, "Folding") as show:
            found = _state(source, seq, name, sections, output, snapshots=not no_snapshots, show=show)
    if output == "json":
        show_json(head | found)
    elif name:
        click.echo(to_yaml(head | found).rstrip())
    elif sections:
        click.echo(f"State after sequence {seq}, {head['at']}")
        for section in dict.fromkeys(sections):
            click.echo("")
            _show_section(section, found[section])
    else:
        click.echo("\n".join(tables.state_lines(found, seq, head["at"])))


def _show_section(name: str, found: dict[str, Any]) -> None:
    if not found:
        click.echo(f"There is nothing in {name}.")
    elif name == "configuration":
        click.echo(to_yaml(found).rstrip())
    else:
        click.echo("\n".join(tables.section_lines(name, found)))


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
        wanted = dict.fromkeys(sections) or objects.SECTIONS
        return overview.look(source, seq, wanted, snapshots=snapshots, progress=show)
    return overview.overview(source, seq, snapshots=snapshots, progress=show)


@replay.command()
@click.argument("before", metavar="SEQ|TIME")
@click.argument("after", metavar="SEQ|TIME")
@log_option()
@output_option()
@click.pass_context
def diff(ctx: click.Context, before: str, after: str, file: Path | None, output: str) -> None:
    """Show what changed between two points, per kind.

    Who was admitted, evicted, migrated, resized or finished; which jobs came and went; checks, queues'
    numbers, configuration.

    \b
    Examples:
      sluice replay diff 4711 4800
      sluice replay diff 2026-01-06T14:00Z 2026-01-06T15:00Z -o json
    """
    with plain_errors():
        source = source_of(ctx, file)
        first, last = sequence_of(source, before), sequence_of(source, after)
        with progress(source, "Folding") as show:
            found = overview.between(source, first, last, progress=show)
        moments = [f"{seq}, {rfc3339(moment_of(source, seq))}" for seq in (first, last)]
    if output == "json":
        show_json({"before": first, "after": last, **differing.whole(found)})
    else:
        click.echo("\n".join(tables.difference_lines(found, *moments)))


@replay.command()
@log_option()
@output_option()
@click.option("--service", "writers", multiple=True, help="Only this one: scheduler, slices. Default: all.")
@click.option("--from", "start", type=click.Choice(["start", "snapshot"]), default="start", show_default=True)
@click.option("--from-seq", type=click.IntRange(1), help="With --from snapshot: the newest not after this.")
@click.pass_context
def verify(
    ctx: click.Context,
    file: Path | None,
    output: str,
    writers: tuple[str, ...],
    start: str,
    from_seq: int | None,
) -> None:
    """Decide every commit of every service again, all services at once.

    The first difference ends a service's check, with exit code 1.
    """
    with plain_errors():
        source = source_of(ctx, file)
        known = {decider.writer: decider for decider in deciders()}
        for writer in writers:
            if writer not in known:
                raise CliError(f"no service {writer!r}.{did_you_mean(writer, known)}", exit_code=EXIT_USAGE)
        starts: list[checking.Start] = []
        for writer in writers or known:
            fold = source.snapshot(known[writer], from_seq or source.end) if start == "snapshot" else None
            starts.append((known[writer], fold))
        with progress(source, "Deciding") as show:
            found = checking.check_all(source, starts, show)
    if output == "json":
        show_json([report.checked(checked) for checked in found])
    else:
        for checked in found:
            click.echo("\n".join(report.checked_lines(checked)))
    if any(checked.divergence is not None for checked in found):
        sys.exit(1)


@replay.command()
@click.option(
    "--invariant",
    "name",
    required=True,
    help=f"One of {', '.join({**linting.INVARIANTS, **linting.WARNINGS})}.",
)
@log_option()
@output_option()
@click.pass_context
def bisect(ctx: click.Context, name: str, file: Path | None, output: str) -> None:
    """Find the first event that broke an invariant; exit code 1 if there is one."""
    if name not in CHECKS:
        near = did_you_mean(name, CHECKS)
        raise CliError(f"no invariant {name!r}: there are {', '.join(CHECKS)}.{near}", exit_code=EXIT_USAGE)
    with plain_errors():
        source = source_of(ctx, file)
        with progress(source, "Looking") as show:
            found = linting.first_violation(source, name, show)
    if output == "json":
        show_json(None if found is None else linting.plain(found))
    elif found is None:
        click.echo(f"{name} held throughout {source.first} to {source.end}.")
    else:
        click.echo(f"{name} was broken by {found.seq}, {clock(found.at)}: {found.text}")
    if found is not None:
        sys.exit(1)


@replay.command()
@click.argument("name")
@log_option()
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw it into this file.")
@click.pass_context
def timeline(ctx: click.Context, name: str, file: Path | None, output: str, svg: Path | None) -> None:
    """Show all that happened to a job, workload, cluster queue or cohort, in order."""
    with plain_errors():
        source = source_of(ctx, file)
        world = configured_at(source, Scheduler(), source.end).world
        queues = _queues(world, name)
        with progress(source, "Reading") as show:
            if queues:
                found = causes.history_of_queues(source, _locals(world, queues), queues, show)
            else:
                found = causes.history(source, [name if "/" in name else f"default/{name}"], show)
        if not found:
            find(scheduler_at(source, source.end).state, name)
        if svg is not None:
            _write(svg, picture.timeline(found, name, _flavors(world)))
    if output == "json":
        show_json([vars(h) for h in found])
    else:
        click.echo("\n".join(happening_line(h) for h in found))


def _flavors(world: World) -> list[str]:
    """Return the flavors in the order in which queues prefer them."""
    groups = (group for q in world.cluster_queues.values() for group in q.spec.resource_groups)
    return list(dict.fromkeys(flavor.name for group in groups for flavor in group.flavors))


def _queues(world: World, name: str) -> list[str]:
    """Return the cluster queues that *name* means: itself, or those of a cohort; [] for anything else."""
    inside = [
        n for n, q in world.cluster_queues.items() if name in (node.name for node in q.node.path_to_root())
    ]
    return inside or ([name] if name in world.cluster_queues else [])


def _locals(world: World, queues: list[str]) -> list[str]:
    return [key for key, local in world.local_queues.items() if local.cluster_queue in queues]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from None
    click.echo(f"{path} written", err=True)


@replay.command("what-if")
@log_option()
@click.option("--set", "settings", multiple=True, metavar="KIND/NAME.PATH=VALUE", help="Another setting.")
@click.option("--apply", "files", multiple=True, type=click.Path(path_type=Path), help="Other manifests.")
@click.option("--drop", "drops", multiple=True, metavar="job/NAME|queue/NAME|KIND/NAME", help="Leave out.")
@click.option("--from", "since", metavar="SEQ|TIME", help="Changes hold from here on; default: the start.")
@click.option(
    "--jobs", type=click.Path(path_type=Path), help="Jobs of a trace instead: SWF or sacct --parsable2."
)
@click.option("--cpus", type=click.IntRange(1), help="With --jobs: what the machine has.")
@click.option("--limit", type=click.IntRange(1), help="With --jobs: only the first so many.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw the comparison.")
@output_option()
@click.pass_context
def what_if_command(
    ctx: click.Context,
    file: Path | None,
    settings: tuple[str, ...],
    files: tuple[Path, ...],
    drops: tuple[str, ...],
    since: str | None,
    jobs: Path | None,
    cpus: int | None,
    limit: int | None,
    svg: Path | None,
    output: str,
) -> None:
    """Run the log's jobs again in virtual time under other rules, and compare.

    Without changes it checks that the log decides itself again exactly.

    \b
    Examples:
      sluice replay what-if -l week.slog --set ClusterQueue/a.spec.cohortName=all
      sluice replay what-if -l week.slog --drop 'job/team-b/sweep-*'
      sluice replay what-if --jobs trace.swf.gz --set ClusterQueue/q1.spec.queueingStrategy=StrictFIFO
    """
    with plain_errors():
        changes = Changes([parse_setting(text) for text in settings], _manifests(files), list(drops))
        if since and not changes:
            raise CliError(
                "--from says since when changes hold: want --set, --apply or --drop", exit_code=EXIT_USAGE
            )
        if jobs is not None and file is not None:
            raise CliError("want --log or --jobs, not both", exit_code=EXIT_USAGE)
        inputs = read_trace(jobs, cpus, limit) if jobs is not None else None
        if inputs is not None and inputs.left_out:
            click.echo(f"note: {inputs.left_out} entries that never ran are left out", err=True)
        source = source_of(ctx, file) if inputs is None else TraceSource(inputs, str(jobs))
        if since:
            changes.since = _moment(source, since)
        with progress(source, "Playing") as show:
            found = what_if(source, changes, show, inputs=inputs)
        if svg is not None:
            _write(svg, picture.comparison([(run.name, run.numbers) for run in found.runs]))
    if output == "json":
        show_json(report.compared(found))
    else:
        click.echo("\n".join(report.compared_lines(found)))
    if not found.reproduced:
        sys.exit(1)


def _moment(source: Source, text: str) -> int:
    if isinstance(source, TraceSource):
        return time_of(text, source.inputs.end)
    if not text.isdigit():
        latest = moment_of(source, source.end)
        since = time_of(text, latest)
        if since > latest:
            end = f"{source.name} ends at {clock(latest)} UTC"
            raise RangeError(f"{end}, before {text}: nothing would change")
        return since
    seq = sequence_of(source, text)
    return int(next(entry.at for entries in source.read(seq) for entry in entries))


def _manifests(files: tuple[Path, ...]) -> list[dict[str, Any]]:
    found = []
    for path in files:
        try:
            documents = list(yaml.safe_load_all(path.read_text()))
        except OSError as error:
            raise CliError(f"{path}: {error.strerror}", exit_code=EXIT_USAGE) from None
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            raise CliError(f"{path}: {error}", exit_code=EXIT_USAGE) from None
        if not any(documents):
            raise CliError(f"{path}: no manifest in it", exit_code=EXIT_USAGE)
        for document in documents:
            if document is None:
                continue
            if not isinstance(document, dict):
                raise CliError(f"{path}: want manifests", exit_code=EXIT_USAGE)
            found.append(document)
    return found


@replay.command("index")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--every", type=click.IntRange(1), default=20_000, show_default=True, help="Events.")
@click.pass_context
def index_command(ctx: click.Context, file: Path, every: int) -> None:
    """Store snapshots beside an exported log, so that states in it are found at once."""
    with plain_errors():
        source = source_of(ctx, file)
        assert isinstance(source, FileSource)
        with progress(source, "Folding") as show:
            count = index(source, every, show)
    click.echo(f"{count} snapshots in {source.sidecar.directory}")


@replay.command()
@at_option()
@log_option()
@click.pass_context
def shell(ctx: click.Context, at: str | None, file: Path | None) -> None:
    """Step through the log event by event, forward and back, with the state beside it.

    n and b step forward and back (n 10: ten), m and mb by messages, g goes to a sequence or time, f NAME to
    the next event about a job or queue; s shows the state, s NAME one thing, w NAME explains why; ? has all.
    Commands may come from a pipe, too.
    """
    from .replay_shell import Shell

    with plain_errors():
        source = source_of(ctx, file)
        Shell(source, sequence_of(source, at) if at else source.first).run()
