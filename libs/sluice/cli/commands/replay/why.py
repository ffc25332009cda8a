"""`sluice why`, `who-preempted`, `trace` and `simulate`: questions about single workloads and events."""

from pathlib import Path

import click
import msgspec

from sluice.cli.cell.client import Api, run
from sluice.cli.cell.log_options import (
    about_a_log,
    archive_option,
    at_option,
    log_option,
    output_option,
    plain_errors,
    progress,
    sequence_of,
    show_json,
    source_of,
)
from sluice.cli.cell.selectors import namespace_option
from sluice.cli.kit.durations import utc
from sluice.cli.kit.errors import EXIT_UNAVAILABLE, EXIT_USAGE, CliError
from sluice.cli.kit.files import read_plain
from sluice.cli.kit.table import one_line
from sluice.cli.kit.terminal import echo
from sluice.log.errors import EventLogError
from sluice.protocol.query import WhyAnswer, WhyRequest
from sluice.protocol.subjects import COMMITS
from sluice.replay.explain import submission
from sluice.replay.explain.others import others_at
from sluice.replay.explain.submission import InvalidManifestError
from sluice.replay.explain.why import explain, find
from sluice.replay.explain.why_text import plain_words
from sluice.replay.history import causes
from sluice.replay.history import trace as tracing
from sluice.replay.history.event_text import describe, subject_of
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import scheduler_at


@click.command()
@click.argument("workload")
@namespace_option()
@at_option()
@log_option()
@archive_option()
@output_option()
@click.pass_context
def why(
    ctx: click.Context,
    workload: str,
    namespace: str,
    at: str | None,
    file: str | None,
    archive: str | None,
    output: str,
) -> None:
    """Explain why WORKLOAD (or a job's) is pending, now or at any sequence or time.

    Shows what it asks for and what there is, its place in the queue, who holds what is short and why they
    may not be preempted, and changes that would admit it, each of them decided on a copy of the state. A user
    who may not read the log asks the api service, which tells of the user's own namespaces, as of now.

    \b
    Examples:
      sluice why train
      sluice why team-a/train --at 4711
      sluice why train --at 2026-01-06T14:03 -l tuesday.slog -o json
    """
    with plain_errors():
        try:
            source = source_of(ctx, file, archive)
        except (CliError, EventLogError) as error:
            if file is not None or archive is not None or at or not _told(ctx, workload, namespace, output):
                raise error from None
            return
        _explained(source, _within(namespace, workload), at, output)


def _told(ctx: click.Context, name: str, namespace: str, output: str) -> bool:
    """Show what the api service says, as teams may not read the log; tell whether it says anything."""
    space, _, rest = name.rpartition("/")

    async def ask(api: Api) -> WhyAnswer:
        return await api.ask(
            "query.why", WhyRequest(name=rest, namespace=space or namespace), WhyAnswer, 60.0
        )

    try:
        found = run(ctx, ask)
    except CliError as error:
        if error.exit_code == EXIT_UNAVAILABLE:
            return False
        raise
    if output == "json":
        show_json(found.report)
    else:
        echo("\n".join(found.text))
    return True


def _explained(source: Source, workload: str, at: str | None, output: str) -> None:
    seq = sequence_of(source, at)
    with progress(source, "Reading", seq) as show:
        fold = scheduler_at(source, seq, progress=show)
        report = explain(
            fold.state, workload, seq, fold.at, others=others_at(source, seq, fold, workload, show)
        )
    if output == "json":
        show_json(report.plain())
    else:
        echo("\n".join(plain_words(report)))


def _within(namespace: str, name: str) -> str:
    """Return the name as it is to be looked for; in `default` as it was given, for errors to repeat."""
    return name if "/" in name or namespace == "default" else f"{namespace}/{name}"


@click.command("who-preempted")
@click.argument("workload")
@namespace_option()
@about_a_log
@output_option()
def who_preempted(source: Source, workload: str, namespace: str, output: str) -> None:
    """Say who preempted a workload or job, when, and by which rule."""
    workload = _within(namespace, workload)
    key = workload if "/" in workload else f"default/{workload}"
    with progress(source, "Reading") as show:
        found = causes.preemptions_of(source, key, show)
        if not found and not causes.history(source, (key,), show):
            find(scheduler_at(source, source.end, progress=show).state, workload)
    if output == "json":
        show_json([{"seq": h.seq, "at": h.at, **h.data} for h in found])
    elif not found:
        echo(f"{key} was not preempted.")
    for h in found if output == "text" else ():
        d = h.data
        echo(f"{h.seq:>8}  {utc(h.at)}  {d['workload']} by {d['preemptor']}: {d['rule']}")
        echo(f"          {d['message']}")
        if h.cause:
            echo(f"          brought about by {h.cause} (`sluice trace {h.cause}`)")


@click.command()
@click.argument("event", type=click.IntRange(1), metavar="SEQ")
@click.argument("about", default="", metavar="[NAME]")
@about_a_log
@output_option()
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Causes and consequences shown.",
)
def trace(source: Source, event: int, about: str, output: str, limit: int) -> None:
    """Follow the message at SEQ back to its first cause, and on to what came of it.

    A commit may hold many events; NAME, a job, workload or queue, leaves out what is not about it.
    """
    sequence_of(source, str(event))
    with progress(source, "Reading") as show:
        found = tracing.trace(source, event, about=about, limit=limit, back=limit, progress=show)
    if output == "json":
        rows = {
            "causes": found.causes,
            "consequences": [{"depth": d, **vars(h)} for d, h in found.consequences],
            "cut": found.cut,
        }
        show_json(msgspec.to_builtins(rows))
        return
    if found.cut:
        echo(f"... there are earlier causes, more than {limit} (--limit, or a NAME)")
    for h in found.causes:
        echo(happening_line(h, mark="▶" if h.seq == event else " "))
    for depth, h in found.consequences:
        echo(happening_line(h, indent=depth))
    if len(found.consequences) == limit:
        echo(f"... there may be more than {limit} (--limit)")


def happening_line(h: causes.Happening, *, indent: int = 0, mark: str = " ") -> str:
    """Return one happening on one line: place, time, writer, what, about whom, and its cause."""
    fields = {"type": h.type, "cause": h.cause, **h.data}
    if h.writer in COMMITS:
        text = one_line(f"{subject_of(fields)}  {describe(fields)}".rstrip(), 200)
    else:
        text = str(h.data.get("job") or h.data.get("subject", ""))
        text += "".join(f" {h.data[k]}" for k in ("workload", "check", "state") if k in h.data)
    cause = f" ={h.cause}" if h.cause else ""
    return f"{mark}{h.seq:>7} {utc(h.at)} {'  ' * indent}{h.writer:<9} {h.type} {text}{cause}"


@click.command()
@click.option(
    "-f",
    "--filename",
    type=click.Path(path_type=Path),
    required=True,
    help="The job's manifest; - is standard input.",
)
@at_option()
@about_a_log
@output_option()
def simulate(source: Source, filename: Path, at: str | None, output: str) -> None:
    """Say what would become of a job if it were submitted: where it would run, whom it would preempt.

    Nothing is submitted. Preempted workloads are taken to stop at once. In a queue with concurrent admission
    the job's variants race as they would. Of an elastic job that runs already, it says what would become of
    its new size.
    """
    seq = sequence_of(source, at)
    manifest, *others = read_plain(filename) or [None]
    if others or not isinstance(manifest, dict):
        raise CliError(f"{filename}: want one job's manifest", exit_code=EXIT_USAGE)
    try:
        with progress(source, "Reading", seq) as show:
            found = submission.simulate(source, seq, manifest, show)
    except InvalidManifestError as error:
        lines = [f"{filename} is invalid:", *(f"* {one}" for one in error.errors)]
        raise CliError("\n".join(lines), exit_code=EXIT_USAGE) from None
    if output == "json":
        show_json(found.plain())
    else:
        echo("\n".join(found.lines()))
