"""Draws a dashboard as it is committed, with the answers to its queries, as a page of HTML.

Places, units, legends and reductions are those of the dashboard's JSON; nothing is left out but the tooltips.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

COLUMN, LINE = 40, 32
"""Pixels of a column and of a line of Grafana's grid."""
HEAD = 34
LEFT, TOP, BOTTOM = 54, 8, 18
COLORS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7",
    "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0", "#d45113", "#1b7a8c",
)  # fmt: skip
TIMES = {"day": 86400, "hour": 3600, "min": 60, "s": 1, "ms": 1e-3, "µs": 1e-6}
STYLE = """
body { margin: 0; font: 11px sans-serif; color: #222; background: #f4f5f5; width: 960px; position: relative }
section { position: absolute; box-sizing: border-box; padding: 6px; }
section > div { background: #fff; border: 1px solid #ddd; height: 100%; box-sizing: border-box;
  overflow: hidden; display: flex; flex-direction: column; padding: 4px 6px }
h1 { font-size: 16px; margin: 0; padding: 10px 12px 0; height: 24px } h2 { font-size: 13px; margin: 8px 6px }
h3 { font-size: 12px; margin: 0 } .legend { display: flex; flex-wrap: wrap; gap: 0 10px; overflow: hidden }
.legend i { display: inline-block; width: 12px; height: 3px; margin-right: 4px; vertical-align: middle }
.numbers { display: flex; flex: 1; gap: 12px; align-items: center; justify-content: space-evenly }
.numbers b { display: block; font-size: 26px; color: #3ca951 } svg { flex: none }
.nothing { flex: 1; display: grid; place-items: center; font-size: 16px; color: #c00 }
text { font: 10px sans-serif; fill: #555 }
"""


class Series(NamedTuple):
    legend: str
    points: Sequence[tuple[float, float]]
    """Times and values that are numbers, in order."""


class Span(NamedTuple):
    """Which times are shown."""

    begin: float
    end: float
    step: float


Answers = Mapping[int, Sequence[Series]]
"""Id of a panel -> its series."""


def page(dashboard: Mapping[str, Any], answers: Answers, span: Span) -> tuple[str, int]:
    """Return the page, and how high it is."""
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    parts = [f"<h1>{escape(dashboard['title'])}</h1>"]
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        width, height = place["w"] * COLUMN, place["h"] * LINE
        style = f"left:{place['x'] * COLUMN}px;top:{HEAD + place['y'] * LINE}px"
        style += f";width:{width}px;height:{height}px"
        parts.append(
            f'<h2 style="position:absolute;{style}">{escape(panel["title"])}</h2>'
            if panel["type"] == "row"
            else f'<section style="{style}"><div>{_panel(panel, answers[panel["id"]], span)}</div></section>'
        )
    high = HEAD + bottom * LINE + 8
    head = f'<!doctype html><meta charset="utf-8"><style>{STYLE} body {{ height: {high}px }}</style>'
    return head + "\n".join(parts), high


def _panel(panel: Mapping[str, Any], series: Sequence[Series], span: Span) -> str:
    title = f"<h3>{escape(panel['title'])}</h3>"
    unit = panel["fieldConfig"]["defaults"]["unit"]
    if not series:
        return f'{title}<div class="nothing">No data</div>'
    if panel["type"] == "stat":
        shown = [f"<div>{escape(one.legend)}<b>{amount(one.points[-1][1], unit)}</b></div>" for one in series]
        return f'{title}<div class="numbers">{"".join(shown)}</div>'
    legend = [
        f'<span><i style="background:{COLORS[n % len(COLORS)]}"></i>{escape(one.legend)}</span>'
        for n, one in enumerate(series)
    ]
    size = panel["gridPos"]["w"] * COLUMN - 26, panel["gridPos"]["h"] * LINE - 42 - 14 * _lines(panel, series)
    return f'{title}{"".join(_plot(series, unit, size, span))}<div class="legend">{"".join(legend)}</div>'


def _lines(panel: Mapping[str, Any], series: Sequence[Series]) -> int:
    """Return how many lines the legend takes; what needs more is cut off."""
    letters = sum(len(one.legend) + 6 for one in series)
    place: Mapping[str, int] = panel["gridPos"]
    return min(math.ceil(letters / (place["w"] * 6)), place["h"] - 2)


def _plot(series: Sequence[Series], unit: str, size: tuple[int, int], span: Span) -> Iterator[str]:
    """Yield the SVG: a line for each series, broken where there was nothing; from 0 on, as the panels ask."""
    width, height = size
    most = ceiling(max(value for one in series for _, value in one.points))

    def x(at: float) -> float:
        return LEFT + (width - LEFT - 8) * (at - span.begin) / (span.end - span.begin)

    def y(value: float) -> float:
        return height - BOTTOM - (height - TOP - BOTTOM) * max(value, 0) / most

    yield f'<svg width="{width}" height="{height}">'
    for number in range(5):
        value = most * number / 4
        yield f'<path d="M{LEFT} {y(value):.1f}H{width - 8}" stroke="#e4e4e4"/>'
        yield f'<text x="{LEFT - 6}" y="{y(value) + 3:.1f}" text-anchor="end">{amount(value, unit)}</text>'
        at = span.begin + (span.end - span.begin) * (number + 0.5) / 5
        clock = time.strftime("%H:%M:%S", time.gmtime(at))
        yield f'<text x="{x(at):.1f}" y="{height - 4}" text-anchor="middle">{clock}</text>'
    for number, one in enumerate(series):
        path, before = "", -math.inf
        for at, value in one.points:
            path += f"{'L' if at - before < 1.5 * span.step else 'M'}{x(at):.1f} {y(value):.1f}"
            before = at
        color = COLORS[number % len(COLORS)]
        yield f'<path d="{path}h0.5" fill="none" stroke="{color}" stroke-width="1.5"/>'
    yield "</svg>"


def ceiling(value: float) -> float:
    """Return a round number that is not below the value; 1 where nothing is above 0."""
    if value <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(value))
    return next(scale * step for step in (1, 2, 4, 6, 8, 10) if scale * step >= value * 0.999)


def amount(value: float, unit: str) -> str:
    """Return a number as Grafana says it in a unit."""
    match unit:
        case "percentunit":
            return f"{100 * value:.3g}%"
        case "s":
            for name, seconds in TIMES.items():
                if value >= seconds:
                    return f"{value / seconds:.3g} {name}"
            return "0 s"
        case _:
            suffix = {"cps": " c/s", "cpm": " c/m"}.get(unit, "")
            for name, size in {" Tri": 1e12, " Bil": 1e9, " Mil": 1e6, " K": 1e3}.items():
                if value >= size:
                    return f"{value / size:.3g}{name}{suffix}"
            return f"{value:.3g}{suffix}"
