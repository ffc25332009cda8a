"""A picture of `tests.bench.memory --long`: `python -m tests.bench.memory_plot FILE > memory.svg`.

One line for each service: the size of its state over the jobs that were played.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 170, 34, 46
COLORS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#a463f2", "#9c6b4e")
STEPS = (1, 2, 5)


def picture(lines: Sequence[dict[str, Any]]) -> str:
    """Return the SVG."""
    jobs = [line["jobs"] for line in lines]
    names = sorted(lines[-1]["bytes"], key=lambda name: -lines[-1]["bytes"][name])
    top = _round_up(max(max(line["bytes"].values()) for line in lines) / 1e6)
    right = jobs[-1]

    def x(count: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * count / right

    def y(mb: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * mb / top

    parts = [*_frame(lines[-1], top, x, y)]
    labels = _apart([y(lines[-1]["bytes"][name] / 1e6) for name in names])
    for name, color, label in zip(names, COLORS, labels, strict=False):
        places = " ".join(f"{x(line['jobs']):.1f},{y(line['bytes'][name] / 1e6):.1f}" for line in lines)
        parts.append(f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="1.8"/>')
        size = lines[-1]["bytes"][name] / 1e6
        parts.append(_text(x(right) + 8, label + 4, f"{name} {size:.1f} MB", color))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _frame(last: dict[str, Any], top: float, x: Any, y: Any) -> Iterator[str]:
    title = f"State of each service, MB; {last['finished_kept']:,} finished jobs are kept"
    yield _text(LEFT, 18, title, "#222")
    for number in range(6):
        mb, jobs = top * number / 5, last["jobs"] * number / 5
        yield f'<path d="M{LEFT} {y(mb):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
        yield _text(LEFT - 8, y(mb) + 4, f"{mb:g}", "#555", "end")
        yield _text(x(jobs), HEIGHT - BOTTOM + 18, f"{jobs:,.0f}", "#555", "middle")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "jobs submitted", "#555", "middle")


def _apart(places: Sequence[float], gap: float = 14) -> list[float]:
    """Return heights for labels: near their lines, from the top down, and none upon another."""
    found: list[float] = []
    lowest = HEIGHT - BOTTOM - gap * (len(places) - 1)
    for number, place in enumerate(places):
        most = lowest + gap * number
        found.append(min(max(place, found[-1] + gap if found else 0.0), most))
    return found


def _text(x: float, y: float, text: str, color: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}">{text}</text>'


def _round_up(value: float) -> float:
    scale = 1.0
    while scale * 10 < value:
        scale *= 10
    return next((scale * step for step in (*STEPS, 10) if scale * step >= value), value)


if __name__ == "__main__":
    lines = [msgspec.json.decode(line) for line in Path(sys.argv[1]).read_bytes().splitlines()]
    sys.stdout.write(picture(lines))
