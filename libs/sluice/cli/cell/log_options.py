"""Options that the replay commands share: the log, a point of it, progress, errors in words."""

import atexit
import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from sluice.cli.kit import durations
from sluice.cli.kit.errors import EXIT_UNAVAILABLE, EXIT_USAGE, CliError
from sluice.cli.kit.options import Decorator
from sluice.cli.kit.settings import Settings
from sluice.cli.kit.terminal import echo
from sluice.events.codec import CommitDecodeError
from sluice.log.errors import EventLogError
from sluice.log.fold import FoldError
from sluice.protocol.subjects import COMMITS, job_of
from sluice.replay.history.causes import history
from sluice.replay.history.event_text import describe
from sluice.replay.simulate.changes import ChangeError
from sluice.replay.simulate.cluster_traces import TraceError
from sluice.replay.source import moments
from sluice.replay.source.errors import UnknownNameError, UnknownWorkloadError
from sluice.replay.source.moments import MomentError, moment_of, time_of
from sluice.replay.source.source import FileSource, LogFileError, Source
from sluice.replay.source.suggest import did_you_mean
from sluice.replay.source.time_travel import RangeError
from sluice.retention.archive import Archive, ArchiveSource, cell_of
from sluice.retention.stores import is_archive, store_at

_SOURCE = "sluice.source"
"""Where a command's context keeps the log it looks into."""


class Place(click.Path):
    """A path, or the address of an archive in an object store, as it was typed."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        return value if "://" in str(value) else super().convert(value, param, ctx)


def log_option() -> Decorator:
    return click.option(
        "-l",
        "--log",
        "file",
        type=Place(),
        help="An exported log (.slog, or .jsonl), or an archive (a directory, s3://BUCKET/PREFIX); without "
        "it, the running cell's, read only.",
    )


def archive_option() -> Decorator:
    return click.option(
        "--archive",
        type=Place(file_okay=False),
        metavar="DIR",
        help="The running cell's archive (a directory, s3://BUCKET/PREFIX): for what was cut off its log.",
    )


def about_a_log(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `-l`, and the log to look into as its first argument; tell its errors in words."""

    @log_option()
    @archive_option()
    @click.pass_context
    @functools.wraps(command)
    def opened(ctx: click.Context, /, *, file: str | None, archive: str | None, **options: Any) -> None:
        with plain_errors():
            command(source_of(ctx, file, archive), **options)

    return opened


def at_option() -> Decorator:
    return click.option(
        "--at",
        metavar="SEQ|TIME",
        help="Sequence, or time like 2026-01-01T14:03, 14:03 or 10m (ago); default: the end.",
    )


def output_option() -> Decorator:
    return click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")


def source_of(ctx: click.Context, file: str | None, archive: str | None = None) -> Source:
    """Open the log to look into."""
    # A state of a million objects goes with the process; collecting it at the end would take a while.
    atexit.register(gc.freeze)
    if file is not None and archive is not None:
        raise CliError(
            "--archive goes with the running cell's log; -l may name it itself", exit_code=EXIT_USAGE
        )
    source = _live(ctx) if file is None else recorded(file)
    if archive is not None:
        source = archived(archive, source)
    ctx.meta[_SOURCE] = source
    return source


def recorded(place: str) -> Source:
    """Return the log in a file, or in an archive."""
    return archived(place) if is_archive(place) else FileSource(Path(place))


def archived(place: str, rest: Source | None = None) -> Source:
    """Return the log in an archive; *rest*: the one that goes on from it."""
    store = store_at(place)
    if rest is not None:
        return ArchiveSource(Archive(store, rest.header.cell), rest)
    return Archive(store, cell_of(store)).source()


def _live(ctx: click.Context) -> Source:
    from .live_source import live_source

    return live_source(ctx.find_object(Settings) or Settings())


def sequence_of(source: Source, at: str | None) -> int:
    """Return the sequence that `--at` means, and say so where a file ends before it.

    Raises:
        RangeError, CliError: it means none.
    """
    seq = moments.sequence_of(source, at)
    if at and not at.isdigit() and seq == source.end and isinstance(source, FileSource):
        end = moment_of(source, seq)
        if end < time_of(at, end):
            echo(f"note: the log ends at {durations.utc(end)} UTC, before {at}", err=True)
    return seq


Show = Callable[[int], None]
"""Told how far a work has come."""


@contextmanager
def progress(source: Source, what: str, until: int | None = None) -> Iterator[Show]:
    """Show how far reading has come, up to a sequence or the end; a reader that begins again starts anew.

    Shown on a terminal's standard error only, and full when all went well.
    """
    weight = source.weight if isinstance(source, FileSource) else int
    begin = weight(source.first - 1)
    with bar(what, weight(source.end if until is None else until) - begin) as show:
        yield lambda seq: show(weight(seq) - begin)


@contextmanager
def bar(what: str, length: int) -> Iterator[Show]:
    """Show how much of a work of *length* is done, as `progress` does."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    length = max(length, 1)
    with click.progressbar(length=length, label=what, file=sys.stderr) as shown:

        def show(done: int) -> None:
            if done > shown.pos:
                shown.update(min(done, length) - shown.pos)
            elif done < shown.pos - length // 2:
                # The next pass over the log.
                shown.pos, shown.finished = 0, False
                shown.update(max(done, 0))

        yield show
        show(length)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn the library's errors into the command line's."""
    try:
        yield
    except UnknownNameError as error:
        near = _near(error.name, error.known) or _near(error.name, _everybody())
        raise CliError(f"there is nothing called {error.name!r} there.{near}") from None
    except UnknownWorkloadError as error:
        everybody = _everybody()
        if _full(error.name) in everybody:
            raise CliError(
                f"job {error.name!r} is over, or not there yet, at that moment{_last_word(error.name)}",
                hint=f"`sluice replay timeline {error.name}` tells when it was; ask again with --at",
            ) from None
        near = _near(error.name, error.known) or _near(error.name, everybody)
        raise CliError(f"there is no workload or job {error.name!r} there.{near}") from None
    except ChangeError as error:
        text = str(error)
        end = "" if text.endswith((".", "?", "!")) else "."
        raise CliError(f"{text}{end}{_near(error.word, list(error.known))}", exit_code=EXIT_USAGE) from None
    except (RangeError, MomentError) as error:
        raise CliError(str(error), exit_code=EXIT_USAGE) from None
    except (LogFileError, TraceError, FoldError, CommitDecodeError) as error:
        raise CliError(str(error)) from None
    except EventLogError as error:
        raise CliError(str(error), exit_code=EXIT_UNAVAILABLE) from None


def _everybody() -> list[str]:
    """Return the jobs that the log ever spoke of; they need not be there at the moment asked for."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.meta.get(_SOURCE)
    if source is None:
        return []
    found = {job_of(entry.suffix) for entries in source.read(1, None, ("job.>",)) for entry in entries}
    return sorted(job for job in found if job is not None)


def _last_word(name: str) -> str:
    """Return what the log says last of a job: why it was refused, or how it ended."""
    source = click.get_current_context().meta[_SOURCE]
    said = [each for each in history(source, (_full(name),)) if each.writer in COMMITS]
    if not said:
        return ""
    return f": {said[-1].type} at {said[-1].seq}, {describe({**said[-1].data, 'type': said[-1].type})}"


def _full(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def _near(word: str, known: list[str]) -> str:
    if "/" not in word:
        known = [*known, *(name.partition("/")[2] for name in known)]
    return did_you_mean(word, known) if word else ""


def show_json(value: Any) -> None:
    from sluice.cli.kit.output import to_json

    echo(to_json(value).rstrip("\n"))


def write_picture(path: Path, text: str) -> None:
    """Write an SVG picture, and say so.

    Raises:
        CliError: it cannot be written.
    """
    try:
        path.write_text(text)
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from None
    echo(f"{path} written", err=True)
