"""Tables as kubectl prints them: upper-case titles, columns three blanks apart, no lines."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

from .terminal import style

Object = dict[str, Any]
"""A Kubernetes object as plain data, as the api service answers."""

GAP = "   "

_COLOURS: dict[str, str] = {
    "Running": "green",
    "Admitted": "green",
    "Active": "green",
    "Ready": "green",
    "True": "green",
    "leader": "green",
    "Succeeded": "bright_black",
    "Finished": "bright_black",
    "Complete": "bright_black",
    "standby": "bright_black",
    "Pending": "yellow",
    "Queued": "yellow",
    "Submitted": "yellow",
    "QuotaReserved": "cyan",
    "Evicted": "yellow",
    "Stopping": "yellow",
    "Terminating": "yellow",
    "Suspended": "yellow",
    "Failed": "red",
    "Lost": "red",
    "Rejected": "red",
    "Inactive": "red",
    "False": "red",
    "down": "red",
}


@dataclass(frozen=True, slots=True)
class Column[T]:
    """One column: its title, how a row's text is found, and whether only `-o wide` shows it."""

    title: str
    text: Callable[[T], str]
    wide: bool = False
    right: bool = False


def width(text: str) -> int:
    """Return the terminal columns *text* takes; wide East Asian characters take two."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def one_line(text: str, limit: int = 0) -> str:
    """Return *text* on one line without control characters, cut to *limit* columns (0: no limit)."""
    flat = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    if limit and width(flat) > limit:
        return flat[: max(limit - 1, 1)] + "…"
    return flat


def render[T](
    rows: Sequence[T],
    columns: Sequence[Column[T]],
    *,
    wide: bool = False,
    header: bool = True,
    minimum: Sequence[int] = (),
) -> list[str]:
    """Return the table's lines. `minimum` are the least column widths, so that a watch keeps its columns."""
    shown = [column for column in columns if wide or not column.wide]
    cells = [[one_line(column.text(row)) or "" for column in shown] for row in rows]
    titles = [[column.title for column in shown]] if header else []
    widths = column_widths(titles + cells, len(shown), minimum)
    lines = [_line(title, widths, shown) for title in titles]
    lines += [_line(row, widths, shown, colour=True) for row in cells]
    return lines


def aligned(rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return rows of text as lines, with columns below each other; those of *right* end together."""
    table = [list(row) for row in rows]
    count = max(map(len, table), default=0)
    columns = [Column[str]("", str, right=number in right) for number in range(count)]
    widths = column_widths(table, count)
    return [_line(row, widths, columns) for row in table]


def column_widths(cells: Sequence[Sequence[str]], count: int, minimum: Sequence[int] = ()) -> list[int]:
    """Return the width of each of *count* columns."""
    widths = [minimum[i] if i < len(minimum) else 0 for i in range(count)]
    for row in cells:
        for i, text in enumerate(row):
            widths[i] = max(widths[i], width(text))
    return widths


def _line[T](
    cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column[T]], *, colour: bool = False
) -> str:
    out: list[str] = []
    last = len(cells) - 1
    for i, text in enumerate(cells):
        pad = " " * (widths[i] - width(text))
        # The first column holds names, which may be any word.
        shade = _COLOURS.get(text) if colour and i else None
        painted = style(text, fg=shade) if shade else text
        if columns[i].right:
            out.append(pad + painted)
        else:
            out.append(painted if i == last else painted + pad)
    return GAP.join(out).rstrip()


def bar(used: float, nominal: float, *, cells: int = 20, limit: float | None = None) -> str:
    """Return a usage bar: `█` within nominal quota, `▓` borrowed, `░` free, `·` what could be borrowed.

    The bar's whole length stands for the larger of nominal, limit and use.
    """
    whole = max(nominal, used, limit or 0.0)
    if whole <= 0:
        return "·" * cells
    own = round(cells * min(used, nominal) / whole)
    borrowed = round(cells * max(used - nominal, 0) / whole)
    free = round(cells * max(nominal - used, 0) / whole)
    rest = cells - own - borrowed - free
    if rest < 0:
        free, rest = max(free + rest, 0), 0
    return ("█" * own + "▓" * borrowed + "░" * free + "·" * rest)[:cells]
