"""`sluice log`: the events themselves, as they stand in the log."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click
import msgspec

from sluice.api.errors import UNREADABLE
from sluice.cli.cell.client import find_target
from sluice.cli.cell.log_options import about_a_log, archive_option, log_option, plain_errors, source_of
from sluice.cli.cell.log_reader import open_log
from sluice.cli.kit.durations import clock
from sluice.cli.kit.errors import CliError
from sluice.cli.kit.options import Decorator
from sluice.cli.kit.output import to_yaml
from sluice.cli.kit.settings import Settings
from sluice.cli.kit.table import one_line
from sluice.cli.kit.terminal import echo, plain, style
from sluice.events.catalogue import REFUSALS
from sluice.events.codec import FOREIGN, CommitDecodeError, decode_commit, decode_message
from sluice.log.contract import Entry
from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.protocol.subjects import COMMITS, OUTSIDE, names, nobody_reads
from sluice.replay.history.event_text import describe, subject_of
from sluice.replay.source.source import Source

ALL = (*OUTSIDE, *COMMITS)
_REFUSALS = frozenset(kind.__name__ for kind in REFUSALS)

_SHADES = {
    "config": "magenta",
    "slices": "blue",
    "scheduler": "green",
    "variants": "cyan",
    "checks": "yellow",
    "dispatch": "bright_cyan",
    "job": "bright_black",
    "verdict": "bright_black",
    "presence": "bright_black",
    "cell": "bright_black",
}


@click.group()
def log() -> None:
    """Read the event log: everything that was said and decided, in order.

    The number in front of a line is its sequence; `=N` behind it says which one brought it about.
    """


def _writer_option() -> Decorator:
    return click.option(
        "-w",
        "--writer",
        "writers",
        multiple=True,
        metavar="SUBJECT",
        help=f"Only of these: {', '.join((*COMMITS, 'job', 'verdict', 'presence'))}.",
    )


@log.command("tail")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Messages before now, of those that -w and MATCH keep.",
)
@click.option("--no-follow", is_flag=True, help="Stop at the log's end, as with -l in any case.")
@_writer_option()
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@log_option()
@archive_option()
@click.argument("match", required=False)
@click.pass_context
def tail_command(
    ctx: click.Context,
    lines: int,
    no_follow: bool,
    writers: tuple[str, ...],
    output: str,
    file: str | None,
    archive: str | None,
    match: str | None,
) -> None:
    """Show what is happening, as it happens; MATCH keeps lines that hold a text.

    \b
    Examples:
      sluice log tail
      sluice log tail -n 200 --no-follow
      sluice log tail -w scheduler default/train
      sluice log tail -w config -n 5 -l tuesday.slog
    """
    shown, filters = _Shown(output, match or ""), _filters(writers)
    with plain_errors():
        source = source_of(ctx, file, archive)
        end = source.end
        for texts in _last(source, end, lines, filters, shown):
            shown.put(texts)
    if file is None and not no_follow:
        _run(ctx, lambda live: _follow(live, end + 1, filters, shown))


def _last(
    source: Source, end: int, most: int, filters: Sequence[str], shown: "_Shown"
) -> Sequence[Sequence[str]]:
    """Return what is shown of the last messages of which something is, *most* of them.

    What filters leave out does not count, so that the log is read backwards, in ever larger pieces.
    """
    found: list[Sequence[str]] = []
    last, size = end, max(2 * most, 100)
    while last >= source.first and len(found) < most:
        start = max(source.first, last - size + 1)
        read = (shown.texts(entry) for entries in source.read(start, last, filters) for entry in entries)
        found = [texts for texts in read if texts] + found
        last, size = start - 1, size * 4
    return found[len(found) - most :] if most < len(found) else found


@log.command()
@click.argument("range_", metavar="SEQ | FIRST-LAST | FIRST-")
@_writer_option()
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml", "raw"]), default="text")
@about_a_log
def show(source: Source, range_: str, writers: tuple[str, ...], output: str) -> None:
    """Show one message whole, or a range of them.

    \b
    Examples:
      sluice log show 42
      sluice log show 40-60
      sluice log show 42 -o yaml
      sluice log show 42 -l tuesday.slog
    """
    first, last = _range(range_)
    if first > source.end:
        raise CliError(f"there is no message {first}: the log ends at {source.end}")
    if first < source.first:
        raise CliError(f"the log begins at {source.first}", hint=source.earlier)
    shown = _Shown("yaml" if output == "text" and first == last else output, "")
    for entries in source.read(first, last, _filters(writers)):
        for entry in entries:
            shown.put(shown.texts(entry))


@log.command()
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@about_a_log
def rejected(source: Source, output: str) -> None:
    """List the messages that could not be taken, with what is wrong with each field."""
    found: list[dict[str, Any]] = []
    for entries in source.read(source.first, None, (*COMMITS, "presence.>")):
        for entry in entries:
            if entry.suffix in COMMITS:
                found.extend(event for event in _events(entry) if event.get("type") in _REFUSALS)
            elif nobody_reads(entry.suffix):
                found.append(_refused(entry, "no service reads this subject"))
    # Each service answers in its own time; people look for the message.
    for event in sorted(found, key=lambda event: int(event.get("cause", 0))):
        _show_rejected(event, output)
    if not found and output == "text":
        echo("No message was rejected.", err=True)


def _show_rejected(event: dict[str, Any], output: str) -> None:
    if output == "json":
        echo(msgspec.json.encode(event).decode())
        return
    parts = names(str(event.get("subject", "")))
    who = "/".join(parts[1:]) or str(event.get("subject"))
    echo(one_line(f"{event.get('cause'):>8}  {event.get('eventType') or 'message'} of {who}"))
    for error in event.get("errors", ()):
        bad = (
            f" (got {one_line(str(error['badValue']), 60)})"
            if error.get("badValue") not in (None, "")
            else ""
        )
        detail = error.get("detail") or error.get("type", "invalid")
        echo(f"          * {error.get('field') or 'message'}: {one_line(str(detail), 200)}{bad}")


# Reading


def _run(ctx: click.Context, work: Callable[[JetStreamLog], Any]) -> None:
    target = find_target(ctx.find_object(Settings) or Settings())

    async def session() -> None:
        async with open_log(target) as source:
            await work(source)

    try:
        asyncio.run(session())
    except EventLogError as error:
        raise CliError(str(error), exit_code=4) from None


async def _follow(source: JetStreamLog, start: int, filters: Sequence[str], shown: "_Shown") -> None:
    wake = asyncio.Event()
    reader = source.tail(start, filters, wake.set)
    try:
        while True:
            wake.clear()
            for entry in reader.take():
                shown.put(shown.texts(entry))
            sys.stdout.flush()
            await wake.wait()
    finally:
        with contextlib.suppress(EventLogError):
            await reader.close()


def _filters(writers: Sequence[str]) -> tuple[str, ...]:
    if not writers:
        return ALL
    known = {*COMMITS, "job", "verdict", "presence"}
    if unknown := [writer for writer in writers if writer not in known]:
        raise CliError(f"no subject {unknown[0]!r}; there are {', '.join(sorted(known))}", exit_code=2)
    return tuple(writer if writer in COMMITS else f"{writer}.>" for writer in dict.fromkeys(writers))


def _range(text: str) -> tuple[int, int | None]:
    first, dash, last = text.partition("-")
    if not first.isdigit() or (last and not last.isdigit()) or int(first) < 1:
        raise CliError(f"{text!r}: want a sequence like 42, or a range like 40-60", exit_code=2)
    if not dash:
        return int(first), int(first)
    return int(first), int(last) if last else None


# Showing


def _events(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield the events of a commit as plain data."""
    try:
        commit = decode_commit(entry.payload, entry.suffix, entry.seq)
    except CommitDecodeError as error:
        yield {"type": "Unreadable", "cause": 0, "detail": str(error)}
        return
    if commit is FOREIGN:
        yield _refused(
            entry, f"not written by the service {entry.suffix}, whose subject this is: passed over"
        )
    for step in commit.steps:
        for event in step.events:
            yield msgspec.json.decode(msgspec.json.encode(event))


def _refused(entry: Entry, detail: str) -> dict[str, Any]:
    """Return what the log does not say of a message that all services pass over."""
    return {"type": "Rejected", "cause": entry.seq, "subject": entry.suffix, "errors": [{"detail": detail}]}


class _Shown:
    """Prints entries in one format."""

    def __init__(self, output: str, match: str) -> None:
        self.output, self.match = output, match

    def put(self, texts: Sequence[str]) -> None:
        for text in texts:
            echo(text)

    def texts(self, entry: Entry) -> Sequence[str]:
        """Return what is to be printed of an entry; () where nothing of it matches."""
        return [text for text in self._all(entry) if self.match in plain(text)]

    def _all(self, entry: Entry) -> Iterable[str]:
        match self.output:
            case "text":
                return self._lines(entry)
            case "raw":
                return (entry.payload.decode(errors="replace"),)
            case "json":
                return (msgspec.json.encode(_whole(entry)).decode(),)
            case _:
                return (f"---\n{to_yaml(_whole(entry)).rstrip()}",)

    def _lines(self, entry: Entry) -> Iterator[str]:
        root = entry.suffix.split(".", 1)[0]
        when = clock(entry.at)
        head = f"{entry.seq:>7} {when} {style(f'{root:<9}', fg=_SHADES.get(root))}"
        if entry.suffix not in COMMITS:
            yield f"{head} {_message_line(entry)}"
            return
        for event in _events(entry):
            cause = f" ={event['cause']}" if event.get("cause") else ""
            tag = style(one_line(str(event.get("type")), 60), bold=True)
            text = one_line(f"{subject_of(event)}  {describe(event)}", 220)
            yield f"{head} {tag} {text}{style(cause, dim=True)}"


def _message_line(entry: Entry) -> str:
    parts = names(entry.suffix)
    message = decode_message(entry.payload)
    who = one_line("/".join(parts[1:]))
    if isinstance(message, tuple):
        wrong = "; ".join(str(error) for error in message)
        return f"{style('undecodable', fg='red')} {who}: {one_line(wrong, 160)}"
    tag = style(one_line(message.type, 60), bold=True)
    return f"{tag} {who}  {one_line(_data_text(message.type, bytes(message.data)), 160)}"


def _data_text(event_type: str, data: bytes) -> str:
    if event_type == "JobSubmitted":
        with contextlib.suppress(*UNREADABLE):
            manifest = msgspec.json.decode(data)
            if isinstance(manifest, dict):
                return f"{manifest.get('kind', '')} {manifest.get('apiVersion', '')}"
    return data.decode(errors="replace")


def _whole(entry: Entry) -> dict[str, Any]:
    try:
        payload: Any = msgspec.json.decode(entry.payload)
    except UNREADABLE:
        payload = entry.payload.decode(errors="replace")
    return {"seq": entry.seq, "subject": entry.suffix, "at": entry.at, "message": payload}
