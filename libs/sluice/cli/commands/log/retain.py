"""`sluice log archive|base|restore`: a log that lasts."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import click

from sluice.cli.cell.client import find_target
from sluice.cli.cell.log_options import Place, bar, plain_errors
from sluice.cli.kit import durations
from sluice.cli.kit.durations import utc
from sluice.cli.kit.errors import EXIT_USAGE, CliError, plural
from sluice.cli.kit.options import Decorator
from sluice.cli.kit.settings import Settings
from sluice.cli.kit.terminal import echo
from sluice.log.runtime.bases import Base
from sluice.retention import cycle
from sluice.retention.archive import Archive
from sluice.retention.live import ArchivedCell, opened
from sluice.retention.policy import RetentionPolicy
from sluice.retention.restoring import restore as restored
from sluice.retention.stores import held, store_at

SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _without_api() -> Decorator:
    return click.option(
        "--without-api",
        is_flag=True,
        help="Also where the api service has saved nothing; it then forgets histories of what is cut.",
    )


@click.command()
@click.argument("archive", metavar="DIR", type=Place(file_okay=False))
@click.option("--to", "until", type=click.IntRange(1), metavar="SEQ", help="Last message; default: the last.")
@click.option(
    "--max-age", metavar="TIME", help="Cut what is older, like 30d or 12h; archived, behind a base."
)
@click.option("--max-size", metavar="BYTES", help="Cut until the stream has about so much, like 20G.")
@click.option(
    "--keep",
    default="1h",
    show_default=True,
    metavar="TIME",
    help="What is younger stays, whatever the size.",
)
@_without_api()
@click.pass_obj
def archive(
    settings: Settings,
    archive: str,
    until: int | None,
    max_age: str | None,
    max_size: str | None,
    keep: str,
    without_api: bool,
) -> None:
    """Write what is not archived yet to an archive in DIR; with a limit, cut the log behind a verified base.

    DIR is a directory, or s3://BUCKET/PREFIX in an S3-compatible store, whose keys are in the environment
    (AWS_ACCESS_KEY_ID, AWS_SHARED_CREDENTIALS_FILE and the like). Each cell has an archive of its own.
    Without a limit nothing is cut: it is a backup that is added to. What is cut is archived, read back, and
    behind a base to which the archive leads, byte by byte.

    \b
    Examples:
      sluice log archive /backup/main
      sluice log archive /backup/main --max-age 30d
      sluice log archive s3://backup/main
    """
    policy = RetentionPolicy(_seconds(max_age), _bytes(max_size), _seconds(keep))
    if policy.cuts and until is not None:
        raise CliError(
            "--to is for archiving alone: what is cut is for the limits to say", exit_code=EXIT_USAGE
        )

    async def work(cell: ArchivedCell, place: Archive) -> None:
        if policy.cuts:
            now = time.time_ns() // 1000
            report = await cycle.round_of(cell, place, policy, now, without_api=without_api)
        else:
            report = await cycle.archive_all(cell, place, until)
        echo(f"archived up to {report.archived} of {report.end} in {archive}")
        if report.cut:
            cut = plural(report.cut, "message")
            echo(f"{cut} cut; the log begins at {report.first}, with the base of {report.base}")
        if report.limit:
            echo(f"note: {report.limit}", err=True)

    _with_archive(settings, archive, work)


@click.command()
@click.option(
    "--archive",
    "archive",
    metavar="DIR",
    type=Place(file_okay=False),
    help="The cell's archive; without it, list the bases that there are.",
)
@click.option(
    "--at", "wanted", type=click.IntRange(1), metavar="SEQ", help="Of that sequence; default: the end."
)
@click.option(
    "--whole", is_flag=True, help="Fold the archive from its beginning: for a release with other states."
)
@_without_api()
@click.pass_obj
def base(settings: Settings, archive: str | None, wanted: int | None, whole: bool, without_api: bool) -> None:
    """Make a base: verified states of all services, from which a log that is cut begins.

    The log is archived up to it; nothing is cut. A release whose states are others than those of the bases
    that there are needs one of its own to begin with: made by it, from the whole archive (--whole).
    """
    if archive is None:
        _list(settings)
        return

    async def work(cell: ArchivedCell, place: Archive) -> None:
        made = await cycle.make_base(cell, place, wanted, without_api=without_api, whole=whole)
        echo(_line(made))

    _with_archive(settings, archive, work)


@click.command()
@click.argument("archive", metavar="DIR", type=Place(file_okay=False))
@click.option("--whole", is_flag=True, help="From the archive's beginning; default: from its newest base.")
@click.option("--replicas", type=click.IntRange(1, 5), default=1, help="Copies in a cluster of servers.")
@click.pass_obj
def restore(settings: Settings, archive: str, whole: bool, replicas: int) -> None:
    """Put the archive in DIR into a server that has no log of the cell, every message at its own sequence.

    Services are started afterwards. One that was broken off goes on when it is begun again.
    """
    target = find_target(settings)
    with plain_errors():
        place = Archive(store_at(archive), target.cell)
        with bar("Restoring", place.end) as show:
            found = asyncio.run(restored(place, target.url, whole=whole, replicas=replicas, show=show))
    begins = f"with the base of {found.base}" if found.base else "with everything"
    echo(
        f"restored {found.first} to {found.end} into cell {target.cell} at {target.shown}; it begins {begins}"
    )


def _with_archive(
    settings: Settings, archive: str, work: Callable[[ArchivedCell, Archive], Awaitable[None]]
) -> None:
    target = find_target(settings)

    async def run() -> None:
        store = store_at(archive)
        async with held(store), opened(target.url, target.cell, "sluice-cli") as cell:
            await work(cell, Archive(store, target.cell))

    with plain_errors():
        asyncio.run(run())


def _list(settings: Settings) -> None:
    target = find_target(settings)

    async def run() -> list[Base]:
        async with opened(target.url, target.cell, "sluice-cli") as cell:
            return await cell.bases.all()

    with plain_errors():
        found = asyncio.run(run())
    for each in found:
        echo(_line(each))
    if not found:
        echo("There is no base.", err=True)


def _line(made: Base) -> str:
    versions = ", ".join(f"{writer} {version}" for writer, version in made.versions.items())
    return (
        f"base of {made.seq}, {utc(made.at)}: the log may begin at {made.begin}; by release {made.release}, "
        f"states {versions}"
    )


def _seconds(text: str | None) -> float:
    try:
        return durations.parse(text) if text else 0
    except ValueError:
        raise CliError(f"{text!r}: want a time like 30d, 12h or 90s", exit_code=EXIT_USAGE) from None


def _bytes(text: str | None) -> int:
    if not text:
        return 0
    number = text.lower().removesuffix("b").removesuffix("i")
    unit = number[-1:] if number[-1:] in SIZES and not number[-1:].isdigit() else ""
    try:
        return int(float(number.removesuffix(unit)) * SIZES[unit])
    except (ValueError, OverflowError):
        raise CliError(f"{text!r}: want a size like 500M or 20G", exit_code=EXIT_USAGE) from None
