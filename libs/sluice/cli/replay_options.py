"""What the replay commands share: which log, which point of it, progress, errors in words."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from sluice.events.base import Micros
from sluice.log.decider import Decider
from sluice.log.errors import EventLogError
from sluice.log.fold import Fold, FoldError
from sluice.log.objects import ObjectBucket
from sluice.log.snapshot import Snapshots
from sluice.replay.changes import ChangeError
from sluice.replay.inputs_foreign import TraceError
from sluice.replay.source import FileSource, LiveSource, LogFileError, Source, sequence_at
from sluice.replay.states import RangeError
from sluice.replay.why import UnknownWorkloadError

from .client import Target, find_target
from .errors import EXIT_UNAVAILABLE, EXIT_USAGE, CliError
from .log import open_log
from .options import Decorator
from .output import to_json
from .settings import Settings
from .suggest import did_you_mean


def log_option() -> Decorator:
    return click.option(
        "-l",
        "--log",
        "file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="An exported log (.slog, or .jsonl); without it, the running cell's, read only.",
    )


def at_option() -> Decorator:
    return click.option(
        "--at", metavar="SEQ|TIME", help="Sequence, or time like 2026-01-01T14:03; default: the end."
    )


def output_option() -> Decorator:
    return click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")


def source_of(ctx: click.Context, file: Path | None) -> Source:
    """Open the log to look into."""
    if file is not None:
        return FileSource(file)
    target = find_target(ctx.find_object(Settings) or Settings())

    async def check() -> None:
        async with open_log(target):
            pass

    asyncio.run(check())
    source = LiveSource(target.url, target.cell, lambda decider, upto: _snapshot(target, decider, upto))
    if not source.end:
        raise CliError(f"the log of cell {target.cell} is empty")
    return source


def _snapshot(target: Target, decider: Decider[Any], upto: int) -> Fold[Any] | None:
    async def find() -> Fold[Any] | None:
        async with open_log(target) as log:
            # Newer ones do not help to look into the past.
            return await Snapshots(ObjectBucket(log)).newest(decider, upto)

    import structlog

    # It warns of each snapshot that is newer than *upto*, which is no fault here.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with contextlib.suppress(EventLogError):
        return asyncio.run(find())
    return None


def sequence_of(source: Source, at: str | None) -> int:
    """Return the sequence that `--at` means.

    Raises:
        CliError: it means none.
    """
    if not at:
        return source.end
    if at.isdigit():
        seq = int(at)
        if not source.first <= seq <= source.end:
            raise RangeError(f"there is no sequence {seq}: {source.name} has {source.first} to {source.end}")
        return seq
    moment = time_of(at)
    seq = sequence_at(source, moment)
    if not seq:
        raise RangeError(f"{source.name} begins after {at}")
    return seq


def time_of(text: str) -> Micros:
    """Return an ISO 8601 time as microseconds; without an offset it is local, with Z it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CliError(
            f"{text!r}: want a sequence like 4711, or a time like 2026-01-01T14:03:00Z", exit_code=EXIT_USAGE
        ) from None
    return int(moment.timestamp() * 1_000_000)


@contextmanager
def progress(source: Source, what: str) -> Iterator[Callable[[int], None]]:
    """Show how far reading has come, on a terminal's standard error only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    begin, length = source.first, max(source.end - source.first + 1, 1)
    with click.progressbar(length=length, label=what, file=sys.stderr) as bar:

        def show(seq: int) -> None:
            done = seq - begin + 1
            if done > bar.pos:
                bar.update(done - bar.pos)
            elif done < bar.pos - length // 2:
                # The next pass over the log.
                bar.pos = 0

        yield show


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn the library's errors into the command line's."""
    try:
        yield
    except UnknownWorkloadError as error:
        raise CliError(
            f"there is no workload or job {error.name!r} there.{_near(error.name, error.known)}"
        ) from None
    except ChangeError as error:
        raise CliError(f"{error}.{_near(error.word, list(error.known))}", exit_code=EXIT_USAGE) from None
    except RangeError as error:
        raise CliError(str(error), exit_code=EXIT_USAGE) from None
    except (LogFileError, TraceError, FoldError) as error:
        raise CliError(str(error)) from None
    except EventLogError as error:
        raise CliError(str(error), exit_code=EXIT_UNAVAILABLE) from None


def _near(word: str, known: list[str]) -> str:
    if "/" not in word:
        known = [*known, *(name.partition("/")[2] for name in known)]
    return did_you_mean(word, known) if word else ""


def show_json(value: Any) -> None:
    click.echo(to_json(value).rstrip("\n"))


def clock(at: Micros) -> str:
    """Return a time as people read it, in UTC, to the millisecond."""
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
