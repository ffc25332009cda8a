"""Pictures as SVG, without any library: a timeline with flavors as lanes, and bars side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from html import escape
from typing import Any

from sluice.replay.history.causes import Happening
from sluice.replay.history.lanes import Span, Story, tell

from .durations import moment

_ROW, _LEFT, _WIDTH, _TOP = 18, 160, 1000, 56
_COLOURS = (
    "#4c78a8", "#f58518", "#54a24b", "#b279a2", "#72b7b2", "#eeca3b", "#9d755d", "#ff9da6", "#439894",
)  # fmt: skip
WAITING = "waiting"
MAX_ROWS = 40
"""Of one lane; what does not fit lies over others there."""
_STEPS_S = (0.001, 0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86400, 7 * 86400)


@dataclass
class _Bar:
    """Something that lasted: a wait, or a run on flavors."""

    lane: str
    job: str
    begin: int
    end: int
    text: str
    mark: str = ""
    """How it ended, when not by itself: preempted, migrated, evicted."""
    row: int = 0
    open: bool = False
    """It had not ended at the end of the log."""


def _bars(story: Story, end: int) -> tuple[list[_Bar], list[tuple[_Bar, _Bar]]]:
    """Return waits and reservations as bars, and which of them a job moved from and to."""
    bars, by_last, by_first = [], {}, {}
    for job, spans in story.waits():
        bars.append(_bar(WAITING, job, spans, f"{job} waits", end))
    for job, spans in story.runs():
        bar = _bar(spans[0].detail, job, spans, spans[-1].note, end)
        by_first[id(spans[0])] = by_last[id(spans[-1])] = bar
        bars.append(bar)
    return bars, [
        (by_last[id(left)], by_first[id(right)])
        for left, right in story.moves
        if id(left) in by_last and id(right) in by_first
    ]


def _bar(lane: str, job: str, spans: Sequence[Span], text: str, end: int) -> _Bar:
    until = spans[-1].end
    return _Bar(
        lane,
        job,
        spans[0].begin,
        end if until is None else until,
        text,
        spans[-1].stopped,
        open=until is None,
    )


def timeline(found: Sequence[Happening], title: str, flavors: Sequence[str] = ()) -> str:
    """Draw every job's waits and its runs by flavor; where one is stopped, and what it moves to.

    *flavors*: in the order of their lanes, the most preferred first; others follow by name.
    """
    begin, end = (found[0].at, max(h.at for h in found)) if found else (0, 1)
    all_bars, moves = _bars(tell(found), end)
    scale = _Scale(begin, max(end - begin, 1))
    # What lasted no time to speak of would hide what did.
    bars = [bar for bar in all_bars if bar.lane != WAITING or scale.width(bar) >= 1]
    lanes = _rows(bars)
    places = {name: place for place, name in enumerate((WAITING, *flavors))}
    names = sorted(lanes, key=lambda name: (places.get(name, len(places)), name))
    tops, y = {}, _TOP
    for name in names:
        tops[name] = y
        y += lanes[name] * _ROW + 10
    shapes = [*_axis(scale, y), *_lanes(names, tops, lanes)]
    jobs = {job: n for n, job in enumerate(dict.fromkeys(bar.job for bar in all_bars))}
    for bar in sorted(bars, key=lambda b: (b.begin, b.job)):
        shapes += _drawn(bar, scale, tops[bar.lane], _COLOURS[jobs[bar.job] % len(_COLOURS)])
    # On top of what comes next in the same row.
    shapes += [_mark(bar, scale, tops[bar.lane]) for bar in bars if bar.mark not in ("", "migrated")]
    for left, right in moves:
        shapes.append(_arrow(scale, left, tops[left.lane], right, tops[right.lane]))
    return _svg(title, y + 46, [*shapes, *_legend(y + 26)])


@dataclass(frozen=True)
class _Scale:
    begin: int
    span: int

    def x(self, at: int) -> float:
        return _LEFT + (at - self.begin) / self.span * _WIDTH

    def width(self, bar: _Bar) -> float:
        return self.x(bar.end) - self.x(bar.begin)


def _rows(bars: Sequence[_Bar]) -> dict[str, int]:
    """Give each bar a row of its lane that is free by then; returns the rows of each lane."""
    free: dict[str, list[int]] = {}
    for bar in sorted(bars, key=lambda b: (b.begin, b.job)):
        ends = free.setdefault(bar.lane, [])
        row = next((n for n, until in enumerate(ends) if until <= bar.begin), None)
        if row is None:
            row = len(ends) if len(ends) < MAX_ROWS else min(range(MAX_ROWS), key=lambda n: ends[n])
            if row == len(ends):
                ends.append(0)
        ends[row] = max(ends[row], bar.end)
        bar.row = row
    return {lane: len(ends) for lane, ends in free.items()}


def _lanes(names: Sequence[str], tops: dict[str, int], rows: dict[str, int]) -> Iterator[str]:
    for name in names:
        height = rows[name] * _ROW
        yield (
            f'<rect x="{_LEFT}" y="{tops[name]}" width="{_WIDTH}" height="{height}" '
            f'fill="{"#fafafa" if name == WAITING else "#f0f4f8"}"/>'
        )
        middle = tops[name] + height / 2 + 4
        yield f'<text x="8" y="{middle:.0f}" font-weight="bold">{escape(_short(name, 20))}</text>'


def _drawn(bar: _Bar, scale: _Scale, top: int, colour: str) -> Iterator[str]:
    x, y, width = scale.x(bar.begin), top + bar.row * _ROW + 1, max(scale.width(bar), 2.0)
    waits = bar.lane == WAITING
    style = (
        f'fill="#fff" stroke="{colour}" stroke-dasharray="3 2"' if waits else f'fill="{colour}" stroke="#fff"'
    )
    seconds = (bar.end - bar.begin) / 1e6
    note = f"{bar.text}: {seconds:.3f} s{', still' if bar.open else ''}"
    yield (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 3}" rx="2" {style}>'
        f"<title>{escape(note)}</title></rect>"
    )
    name = _short(bar.job.removeprefix("default/"), int((width - 6) / 6.5))
    if name:
        ink = "#333" if waits else "#fff"
        yield _label(x + 4, y + 12, name, ink, 11)


def _mark(bar: _Bar, scale: _Scale, top: int) -> str:
    y = top + bar.row * _ROW + 1 + (_ROW - 3) / 2
    return _cross(scale.x(bar.end), y, "#c00" if bar.mark == "preempted" else "#777")


def _cross(x: float, y: float, colour: str) -> str:
    return (
        f'<path d="M{x - 5:.1f},{y - 5:.1f} l10,10 m0,-10 l-10,10" stroke="{colour}" stroke-width="2.5" '
        'fill="none"/>'
    )


def _arrow(scale: _Scale, left: _Bar, above: int, right: _Bar, below: int) -> str:
    x1, y1 = scale.x(left.end), above + left.row * _ROW + _ROW / 2
    x2, y2 = scale.x(right.begin), below + right.row * _ROW + _ROW / 2
    x2 = max(x2, x1 + 4)
    return (
        f'<path d="M{x1:.1f},{y1:.1f} C{x1 + 14:.1f},{y1:.1f} {x2 - 14:.1f},{y2:.1f} {x2:.1f},{y2:.1f}" '
        'stroke="#333" stroke-width="1.5" fill="none" marker-end="url(#tip)"/>'
    )


def _axis(scale: _Scale, bottom: int) -> Iterator[str]:
    """Times from the beginning, at round distances; the beginning itself as a date."""
    seconds = scale.span / 1e6
    step = next((s for s in _STEPS_S if seconds / s <= 10), seconds / 10)
    at, number = 0.0, 0
    while at <= seconds:
        x = _LEFT + at / seconds * _WIDTH
        yield f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{bottom - 6}" stroke="#ddd"/>'
        yield _label(x + 2, _TOP - 10, _span(at), "#666", 10)
        number += 1
        at = number * step
    begin = moment(scale.begin, "%Y-%m-%d %H:%M:%S UTC", UTC)
    yield _label(8, _TOP - 10, begin, "#666", 10)


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"+{seconds:g} s"
    if seconds < 7200:
        minutes, rest = divmod(round(seconds), 60)
        return f"+{minutes} min" + (f" {rest} s" if rest else "")
    if seconds < 2 * 86400:
        return f"+{seconds / 3600:g} h"
    return f"+{seconds / 86400:g} d"


def _legend(y: int) -> Iterator[str]:
    box = f'y="{y}" width="26" height="12"'
    yield f'<rect x="{_LEFT}" {box} fill="#fff" stroke="#4c78a8" stroke-dasharray="3 2"/>'
    yield f'<rect x="{_LEFT + 90}" {box} rx="2" fill="#4c78a8"/>'
    yield _cross(_LEFT + 316, y + 6, "#c00")
    yield _cross(_LEFT + 406, y + 6, "#777")
    yield f'<path d="M{_LEFT + 586},{y + 6} l22,0" stroke="#333" stroke-width="1.5" marker-end="url(#tip)"/>'
    texts = {
        32: "waits",
        122: "has quota, one colour per job",
        328: "preempted",
        418: "stopped for another reason",
        618: "migrates",
    }
    yield from (_label(_LEFT + x, y + 10, text, "#000", 11) for x, text in texts.items())


def _label(x: float, y: float, text: str, ink: str, size: int) -> str:
    return f'<text x="{x:.1f}" y="{y}" font-size="{size}" fill="{ink}">{escape(text)}</text>'


def _short(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…" if most >= 4 else ""


def comparison(runs: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Draw the runs' main numbers as bars, each group to its own scale."""
    rows = [
        ("mean wait, s", [n["waits"]["all"]["mean"] for _, n in runs]),
        ("95 % wait, s", [n["waits"]["all"]["p95"] for _, n in runs]),
        ("makespan, s", [n["makespanSeconds"] for _, n in runs]),
        ("preemptions", [sum(n["preemptions"].values()) for _, n in runs]),
        ("migrations", [n["migrations"] for _, n in runs]),
        ("fairness", [n["fairness"] or 0 for _, n in runs]),
    ]
    rows = [row for row in rows if any(row[1])]
    shapes, y = [], 40
    for label, values in rows:
        most = max(*values, 0) or 1
        shapes.append(f'<text x="8" y="{y + 13}">{escape(label)}</text>')
        for index, value in enumerate(values):
            width = value / most * (_WIDTH - 200)
            colour = _COLOURS[index % len(_COLOURS)]
            shapes.append(f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="16" fill="{colour}"/>')
            text = escape(f"{runs[index][0]}: {value:,}")
            shapes.append(f'<text x="{_LEFT + width + 6:.1f}" y="{y + 13}">{text}</text>')
            y += 20
        y += 14
    return _svg("what-if", y + 10, shapes)


def _svg(title: str, height: int, shapes: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 60}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#333"/></marker></defs>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>'
    )
    return "\n".join(
        [head, f'<text x="8" y="22" font-size="15">{escape(title)}</text>', *shapes, "</svg>", ""]
    )
