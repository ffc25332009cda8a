"""`sluice replay traces`: jobs as traces of OpenTelemetry."""

import json
from collections.abc import Iterator, Sequence

import click
from opentelemetry.sdk.trace import ReadableSpan

from sluice.cli.cell.log_options import about_a_log, progress, show_json
from sluice.cli.kit.errors import EXIT_UNAVAILABLE, EXIT_USAGE, CliError
from sluice.cli.kit.terminal import echo
from sluice.events.codec import rfc3339
from sluice.replay.explain.why import find
from sluice.replay.history.causes import happenings
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import scheduler_at, tracked
from sluice.replay.traces.export import ExportError, export
from sluice.replay.traces.fold import traces as made

_SAID = (
    "messaging.destination.name",
    "sluice.workload",
    "sluice.attempt",
    "sluice.flavors",
    "sluice.attempt.stopped",
    "sluice.check",
    "sluice.check.state",
    "sluice.flavors.from",
    "sluice.flavors.to",
    "sluice.job.result",
)
"""Attributes that a line of text has."""


@click.command()
@click.argument("job", required=False, default="")
@click.option("--all", "every", is_flag=True, help="A trace of each job that is over.")
@about_a_log
@click.option(
    "--otlp", metavar="URL", help="Send them to the collector at this address: http://127.0.0.1:4318."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Print the spans.")
def traces(source: Source, job: str, every: bool, otlp: str | None, output: str) -> None:
    """Make a trace of a job from the log, and send it to Jaeger, Tempo or any collector.

    Its spans are the job's waits with their reasons, each attempt with its phases, the admission checks, and
    migrations; preemptors are linked. A job that came with a traceparent is in its submitter's trace. Ids
    are worked out of the log: made again, for jobs of long ago, too, the spans are the same.
    """
    if bool(job) == every:
        raise CliError("name a job, or say --all", exit_code=EXIT_USAGE)
    name = job if not job or "/" in job else f"default/{job}"
    with progress(source, "Reading") as show:
        entries = (entry for batch in tracked(source.read(), show) for entry in batch)
        found = made(happenings(entries), source.header.cell, name)
        count = _send(found, otlp) if otlp is not None else _show(found, output)
    if not count and name:
        find(scheduler_at(source, source.end).state, name)
        raise CliError(f"the log does not say how {job} began: it is no job, or the log was cut since")


def _send(found: Iterator[list[ReadableSpan]], endpoint: str) -> int:
    try:
        sent = export(found, endpoint)
    except ExportError as error:
        raise CliError(str(error), exit_code=EXIT_UNAVAILABLE) from None
    except ValueError as error:
        raise CliError(str(error)) from None
    echo(f"{sent.traces} traces, {sent.spans} spans sent", err=True)
    return sent.traces


def _show(found: Iterator[list[ReadableSpan]], output: str) -> int:
    made = list(found)
    if output == "json":
        show_json([json.loads(span.to_json()) for trace in made for span in trace])
    elif made:
        echo("\n\n".join("\n".join(_lines(trace)) for trace in made))
    return len(made)


def _lines(trace: Sequence[ReadableSpan]) -> Iterator[str]:
    """Yield a line for each span, below its parent, with what was said of it."""
    depths = {trace[0].context.span_id: 0}
    below: dict[int, list[ReadableSpan]] = {}
    for span in trace[1:]:
        below.setdefault(span.parent.span_id if span.parent else 0, []).append(span)
    todo = [trace[0]]
    yield f"trace {trace[0].context.trace_id:032x}"
    while todo:
        span = todo.pop()
        depth = depths[span.context.span_id]
        begin, end = (span.start_time or 0) // 1000, (span.end_time or 0) // 1000
        told = (span.attributes or {}).get
        words = [told(name) for name in _SAID]
        said = " ".join(str(word) for word in words if word not in (None, ""))
        by = [(link.attributes or {}).get("sluice.preemptor") for link in span.links]
        said += "".join(f" by {name}" for name in by if name)
        lasted = (end - begin) / 1_000_000
        yield f"{rfc3339(begin)} {lasted:>10.3f} s  {'  ' * depth}{span.name} {said}".rstrip()
        for child in sorted(below.get(span.context.span_id, ()), key=_order):
            depths[child.context.span_id] = depth + 1
            todo.append(child)


def _order(span: ReadableSpan) -> tuple[int, int]:
    """The last one is shown first."""
    return -(span.start_time or 0), -(span.end_time or 0)
