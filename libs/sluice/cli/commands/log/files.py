"""`sluice log export|import|extract|lint`: logs as files."""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import click

from sluice.cli.cell.client import find_target
from sluice.cli.cell.log_options import (
    about_a_log,
    bar,
    output_option,
    plain_errors,
    progress,
    sequence_of,
    show_json,
)
from sluice.cli.kit.durations import utc
from sluice.cli.kit.errors import CliError, plural
from sluice.cli.kit.settings import Settings
from sluice.cli.kit.terminal import echo
from sluice.log.contract import Entry
from sluice.replay.extract.dependency_closure import Closure
from sluice.replay.extract.extract import Extract, only, other_namespaces
from sluice.replay.extract.redact import OtherDecisionsError, Redactor, redacted, redacted_whole
from sluice.replay.lint import lint as linting
from sluice.replay.source import json_lines, log_file
from sluice.replay.source.source import FileSource, ListSource, Source
from sluice.replay.source.suggest import did_you_mean

from .import_log import import_log
from .log import log
from .prepare import prepare
from .retain import archive, base, restore

for command in (prepare, archive, base, restore):
    log.add_command(command)

MAX_GAPS = 1_000_000
"""Missing messages that an import stands something in for."""


@log.command("export")
@click.argument("output", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--from", "start", metavar="SEQ|TIME", help="First message; default: the first.")
@click.option("--to", "until", metavar="SEQ|TIME", help="Last message; default: the last.")
@click.option("-n", "--namespace", help="Of jobs, only those of this namespace.")
@click.option("--redact", is_flag=True, help="Leave out what jobs run and say.")
@about_a_log
def export(
    source: Source,
    output: Path,
    start: str | None,
    until: str | None,
    namespace: str | None,
    redact: bool,
) -> None:
    """Write the log to a file, compressed and checksummed; `-` writes to standard output.

    A name that ends in .jsonl is written as JSON lines.
    """
    first, last = _bounds(source, start, until)
    keeps: Callable[[Entry], bool] = other_namespaces(namespace) if namespace else _all
    note = f"namespace {namespace}" if namespace else ""
    whole = not namespace and first == source.first and source.header.complete
    count = _export(source, output, keeps, first, last, note=note, complete=whole, redact=redact)
    echo(f"{plural(count, 'message')} of {first} to {last} exported", err=True)


@log.command()
@click.argument("output", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--workload", required=True, help="A workload or job.")
@click.option("--redact", is_flag=True, help="Leave out what jobs run and say.")
@about_a_log
def extract(source: Source, output: Path, workload: str, redact: bool) -> None:
    """Cut out the least that the history of one workload depends on, as a log that decides itself again.

    What lies in other cohort trees goes, then what came after the workload's end, then every job and object
    without which each event about the workload still comes out as it is. Sequences and times stay. Of a long
    log the search for the least ends after some work; the last line says so, and how much is left.
    """
    with progress(source, "Looking") as show:
        closure = Closure(source, workload, show)
    if not closure.found:
        near = did_you_mean(closure.key, [*closure.jobs, *closure.workloads])
        raise CliError(f"the log has no workload or job {closure.key!r}.{near}")
    if not output.parent.is_dir():
        raise CliError(f"{output}: there is no folder {output.parent}")
    found = Extract(source, closure)
    with progress(source, "Reading") as show:
        found.read(show)
    with bar("Cutting", found.length) as show:
        entries = found.cut(show)
    if not found.exact:
        echo(
            "This code decides otherwise than what wrote the log, so all commits are kept as they are.",
            err=True,
        )
    note = f"extract of {closure.key}"
    part = ListSource(entries, source.name)
    part.header = source.header
    count = _export(part, output, _all, part.first, part.end, note=note, complete=False, redact=redact)
    echo(_kept(found, count), err=True)


def _kept(found: Extract, count: int) -> str:
    """Say how much of the log is left, and whether that is the least."""
    messages, jobs = plural(found.messages, "message"), plural(len(found.closure.jobs), "job")
    tries = plural(found.tries, "try", "tries")
    text = f"kept {count} of {messages} and {found.jobs} of {jobs}, after {tries}"
    if found.ended_early:
        text += "; the search ended at its bound of work, so perhaps more can be left out"
    return text


def _all(_: Entry) -> bool:
    return True


def _bounds(source: Source, start: str | None, until: str | None) -> tuple[int, int]:
    first = sequence_of(source, start) if start else source.first
    last = sequence_of(source, until) if until else source.end
    if first > last:
        raise CliError(f"nothing lies between {first} and {last}", exit_code=2)
    return first, last


def _export(
    source: Source,
    output: Path,
    keeps: Callable[[Entry], bool],
    first: int,
    last: int,
    *,
    note: str,
    complete: bool,
    redact: bool,
) -> int:
    """Write the file; returns how many messages it has."""
    header = log_file.Header(
        cell=source.header.cell,
        source=source.name,
        note=note or source.header.note,
        redacted=redact or source.header.redacted,
        complete=complete,
    )
    redactor = Redactor(os.urandom(16))

    def write(batches: Iterator[list[Entry]], what: str) -> int:
        with progress(source, what, last) as show:
            if output.suffix == ".jsonl":
                return json_lines.write(_shown(batches, show), out)
            writer = log_file.Writer(out, header)
            writer.add(_shown(batches, show))
            return writer.finish().entries

    with _target(output, again=redact) as out:
        if not redact:
            return write(only(source, keeps, first, last), "Exporting")
        if keeps is _all and first == source.first:
            # Of this code and whole, so it can be decided anew, and decides itself again.
            whole = redacted_whole(only(source, keeps, first, last), redactor, source.header.cell)
            try:
                return write(whole, "Deciding")
            except OtherDecisionsError as error:
                echo(f"This code decides otherwise ({error}); commits are kept as they are.", err=True)
                out.seek(0)
                out.truncate()
        return write(redacted(only(source, keeps, first, last), redactor), "Exporting")


def _shown(batches: Iterator[list[Entry]], show: Callable[[int], None]) -> Iterator[Entry]:
    for entries in batches:
        yield from entries
        if entries:
            show(entries[-1].seq)


@contextlib.contextmanager
def _target(output: Path, *, again: bool = False) -> Iterator[BinaryIO]:
    """Write beside the file and move it there at the end, so that nobody finds half of it.

    *again*: the writer may begin anew, so that nothing may go to standard output before the end.
    """
    if str(output) == "-":
        if not again:
            yield sys.stdout.buffer
            return
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            shutil.copyfileobj(file, sys.stdout.buffer)
        return
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(output)
    except OSError as error:
        raise CliError(f"{output}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


@log.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.pass_context
def import_command(ctx: click.Context, file: Path) -> None:
    """Put an exported log into an empty cell, every message at its own sequence.

    The replay commands see the messages' own times; the server's are those of the import.
    """
    with plain_errors():
        # Everything is read once before anything is written, so that a damaged file leaves no trace.
        source = FileSource(file)
        missing = 0
        with progress(source, "Checking") as show:
            before = 0
            for entries in source.read():
                for entry in entries:
                    missing += entry.seq - before - 1
                    before = entry.seq
                show(before)
        if missing > MAX_GAPS:
            raise CliError(f"{file}: {missing} messages are missing; an import fills at most {MAX_GAPS}")
        target = find_target(ctx.find_object(Settings) or Settings())
        with progress(source, "Importing") as show:
            asyncio.run(import_log(source, target.url, target.cell, show))
    echo(f"{source.end} sequences imported into cell {target.cell} at {target.shown}")


@log.command()
@about_a_log
@output_option()
def lint(source: Source, output: str) -> None:
    """Check every invariant, and look for preemption loops and thrashing; exit code 1 for violations."""
    with progress(source, "Checking") as show:
        wrong, warned = linting.lint(source, show)
    if output == "json":
        show_json(
            {
                "violations": [linting.plain(v) for v in wrong],
                "warnings": [linting.plain(v) for v in warned],
            }
        )
    else:
        for word, found in (("error", wrong), ("warning", warned)):
            for v in found:
                echo(f"{word}: {v.invariant}: at {v.seq}, {utc(v.at)}: {v.text}")
        echo(f"{plural(len(wrong), 'violation')}, {plural(len(warned), 'warning')}")
    if wrong:
        sys.exit(1)
