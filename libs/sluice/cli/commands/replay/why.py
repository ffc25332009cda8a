"""`sluice why`, `who-preempted`, `trace` and `simulate`: questions about single workloads and events."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import msgspec

from sluice.api.errors import FieldError
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
from sluice.cli.kit.suggest import did_you_mean
from sluice.cli.kit.table import one_line
from sluice.cli.kit.terminal import echo
from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.completions import left_in
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.records import new_record, priority, read
from sluice.core.slices.state import State as SliceState
from sluice.core.slices.submission import Submission, parse
from sluice.core.workload.charges import counts, size_text
from sluice.core.workload.pending_reasons import PENDING_EVALUATION
from sluice.core.world.workload import Workload
from sluice.events.base import Event, JobKey, Micros
from sluice.events.ids import uid
from sluice.events.scheduler import QuotaReserved
from sluice.events.slices import WorkloadCreated, WorkloadRecord
from sluice.log.errors import EventLogError
from sluice.protocol.query import WhyAnswer, WhyRequest
from sluice.protocol.subjects import COMMITS
from sluice.replay.explain import racing_sandbox, resize
from sluice.replay.explain.activity import queue_words
from sluice.replay.explain.others import others_at
from sluice.replay.explain.sandbox import Laboratory, Outcome
from sluice.replay.explain.why import explain, find
from sluice.replay.explain.why_text import plain_words
from sluice.replay.history import causes
from sluice.replay.history import trace as tracing
from sluice.replay.history.event_text import describe, subject_of
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import (
    configured_at,
    fold_at,
    scheduler_at,
    variants_at,
)


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
    file: Path | None,
    archive: Path | None,
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
    with progress(source, "Reading", seq) as show:
        fold = scheduler_at(source, seq, progress=show)
        jobs = configured_at(source, SliceAggregator(), seq, show)
        submission = _submission(filename)
        record = _record(submission, filename, jobs, seq, fold.at)
        job = f"{record.namespace}/{_job_name(record)}"
        running = resize.workload_of(fold.state, job)
        resizes = running is not None and resize.is_resize(fold.state, running, record)
        races = racing_sandbox.policy_for(fold.state, record) is not None and not resizes
        families = variants_at(source, seq, progress=show).state if races else None
        remaining: Mapping[str, int] = {}
        if resizes:
            slices = fold_at(source, SliceAggregator(), seq, progress=show).state
            remaining = left_in(slices, JobKey(job), submission)
    events: tuple[Event, ...] = (WorkloadCreated(cause=seq, workload=record),)
    if running is not None and resizes:
        grown = resize.growth(fold.state, running, record, seq, remaining)
        if grown is None:
            _shrinks(job, running, record, output)
            return
        record, events = grown
    if families is not None:
        outcome = racing_sandbox.Race(fold.state, families, seq, fold.at).run(record)
    else:
        laboratory = Laboratory(fold.state, seq, fold.at)
        outcome = laboratory.attempt(events, record.key)
    if output == "json":
        show_json(msgspec.to_builtins(outcome))
        return
    if running is not None and not resizes:
        echo(f"{job} is there already; this is about another job like it.")
    echo("\n".join(told(fold.state, record, outcome)))
    unseen = families is None and outcome.reserved is None and not outcome.reason
    if unseen and queue_words(fold.state, record) is None:
        echo("\n".join(_unseen(laboratory, record, events)))


def _unseen(laboratory: Laboratory, record: WorkloadRecord, events: Sequence[Event]) -> Iterator[str]:
    """Yield what is to be said of a job that nobody looks at before others: as `why` would a moment later."""
    state, after = laboratory.after(events)
    report = explain(state, record.key, after.seq, after.at)
    yield f"  {report.message}"
    for remedy in report.remedies[:1]:
        yield f"  What would admit it: {remedy.text}"


def _job_name(record: WorkloadRecord) -> str:
    return record.name.removeprefix("job-").removesuffix("-simulated")


def _shrinks(job: str, running: Workload, record: WorkloadRecord, output: str) -> None:
    """Say of a resize that it needs no quota."""
    had, has = (size_text(counts(r.pod_sets)) for r in (running.record, record))
    if output == "json":
        show_json({"resized": {"workload": running.key, "pods": counts(record.pod_sets)}})
    elif had == has:
        echo(f"{job} runs with {has} already.")
    else:
        echo(f"{job} would go on with {has} instead of {had}, at once.")


def told(state: SchedulerState, record: WorkloadRecord, outcome: Outcome) -> Iterator[str]:
    """Yield what would become of the job, as lines for people."""
    name = f"{record.namespace}/{record.name}"
    if outcome.reserved is None:
        yield f"{name} would wait: {_waits_for(state, record, outcome)}"
        if record.replaces is not None:
            yield f"  {resize.running_words(state.world, state.world.workloads[record.replaces])}"
    else:
        done = "be admitted" if outcome.admitted else "have quota reserved, and wait for its admission checks"
        where = f"{outcome.reserved.cluster_queue}{_as_variant(outcome.variant)}"
        yield f"{name} would {done} in {where}: {_flavors(outcome.reserved)}"
        if record.replaces is not None:
            yield f"  {resize.taking_place(state.world.workloads.get(record.replaces), record.replaces)}"
        yield from _later(state, outcome.reserved)
    for event in outcome.preempted:
        yield f"  It would preempt {event.workload} ({event.rule})."
    for variant, reserved in outcome.reserving.items():
        if variant != outcome.variant:
            where = _flavors(reserved)
            yield f"  Variant {variant} would have quota reserved, and wait for checks: {where}"
            yield from _later(state, reserved)
    for variant, why in outcome.waiting.items():
        yield f"  Variant {variant} would wait: {why}"


def _later(state: SchedulerState, reserved: QuotaReserved) -> Iterator[str]:
    """Yield whom the reservation waits for, to be preempted when its checks allow it (AC6)."""
    for victim in reserved.pending_victims if reserved.preemptions_pending else ():
        then = resize.until_then(state.world.workloads.get(victim))
        yield f"  It would preempt {victim}, once its admission checks allow it; until then that one {then}."


def _as_variant(variant: str) -> str:
    return f" as variant {variant}" if variant else ""


def _flavors(reserved: QuotaReserved) -> str:
    """Return how many pods get what; who asks for nothing has no flavor."""
    return "; ".join(
        f"{ps.count} of {ps.name} on {', '.join(f'{f} ({r})' for r, f in ps.flavors.items())}"
        if ps.flavors
        else f"{ps.count} of {ps.name}, without requests"
        for ps in reserved.pod_sets
    )


def _waits_for(state: SchedulerState, record: WorkloadRecord, outcome: Outcome) -> str:
    """Return reason and message; who never comes to a queue is told why not."""
    queues = state.world.local_queues
    closed = queue_words(state, record)
    if closed is not None:
        known = f"{record.namespace}/{record.queue_name}" in queues
        near = "" if known else did_you_mean(record.queue_name, [key.partition("/")[2] for key in queues])
        return f"{': '.join(closed)}{f'.{near}' if near else ''}"
    return ": ".join(filter(None, (outcome.reason or PENDING_EVALUATION, outcome.message)))


def _submission(filename: Path) -> Submission:
    manifest, *others = read_plain(filename) or [None]
    if others or not isinstance(manifest, dict):
        raise CliError(f"{filename}: want one job's manifest", exit_code=EXIT_USAGE)
    metadata = manifest.get("metadata") or {}
    namespace, name = metadata.get("namespace") or "default", str(metadata.get("name", ""))
    submission = parse(msgspec.json.encode(manifest), namespace, name)
    if isinstance(submission, tuple):
        raise _invalid(filename, submission)
    return submission


def _invalid(filename: Path, errors: Sequence[FieldError]) -> CliError:
    lines = [f"{filename} is invalid:", *(f"* {error}" for error in errors)]
    return CliError("\n".join(lines), exit_code=EXIT_USAGE)


def _record(
    submission: Submission, filename: Path, state: SliceState, seq: int, at: Micros
) -> WorkloadRecord:
    """Return the workload that the job would have, by what *state* knows of the configuration."""
    request = read(submission, state)
    if isinstance(request, tuple):
        raise _invalid(filename, request)
    record = new_record(request, priority(state, request), "", uid(seq + 1), at)
    # Of what runs under this name it is only a likeness.
    return msgspec.structs.replace(record, name=f"job-{request.name}-simulated", job=None)
