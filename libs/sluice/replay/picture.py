"""Pictures as SVG, without any library: a timeline with flavors as lanes, and bars side by side."""

from collections.abc import Sequence
from html import escape
from typing import Any

from .causes import Happening

_LANE, _LEFT, _WIDTH = 28, 180, 900
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")


def timeline(found: Sequence[Happening], title: str) -> str:
    """Draw waits (grey), runs by flavor, and evictions (red marks) of every workload in *found*."""
    begin, end = (found[0].at, found[-1].at) if found else (0, 1)
    span = max(end - begin, 1)

    def x(at: int) -> float:
        return _LEFT + (at - begin) / span * _WIDTH

    lanes: dict[str, int] = {"waiting": 0}
    since: dict[str, int] = {}
    running: dict[str, tuple[str, int]] = {}
    shapes: list[str] = []

    def bar(lane: str, start: int, stop: int, text: str) -> None:
        row = lanes.setdefault(lane, len(lanes))
        colour = "#bbb" if lane == "waiting" else _COLOURS[(row - 1) % len(_COLOURS)]
        y = 40 + row * _LANE
        shapes.append(
            f'<rect x="{x(start):.1f}" y="{y}" width="{max(x(stop) - x(start), 1):.1f}" height="{_LANE - 6}" '
            f'fill="{colour}" fill-opacity="0.7"><title>{escape(text)}</title></rect>'
        )

    for h in found:
        record = h.data.get("workload")
        key = f"{record['namespace']}/{record['name']}" if isinstance(record, dict) else str(record)
        if h.type in ("WorkloadCreated", "Requeued"):
            since.setdefault(key, h.at)
        elif h.type == "QuotaReserved":
            bar("waiting", since.pop(key, h.at), h.at, f"{key} waits")
            flavors = sorted({f for ps in h.data["podSets"] for f in ps["flavors"].values()})
            running[key] = (", ".join(flavors) or "no flavor", h.at)
        elif h.type == "Evicted":
            row = lanes.get(running.get(key, ("waiting", 0))[0], 0)
            text = escape(f"{key}: {h.data['reason']} {h.data.get('message', '')}")
            shapes.append(
                f'<circle cx="{x(h.at):.1f}" cy="{40 + row * _LANE + 11}" r="5" fill="#c00">'
                f"<title>{text}</title></circle>"
            )
        elif h.type in ("QuotaReleased", "WorkloadFinished", "WorkloadDeleted") and key in running:
            flavor, start = running.pop(key)
            bar(flavor, start, h.at, f"{key} on {flavor}")
            if h.type == "QuotaReleased":
                since[key] = h.at
    for key, (flavor, start) in running.items():
        bar(flavor, start, end, f"{key} on {flavor}")
    for key, start in since.items():
        bar("waiting", start, end, f"{key} waits")
    labels = [f'<text x="8" y="{40 + row * _LANE + 15}">{escape(name)}</text>' for name, row in lanes.items()]
    return _svg(title, 60 + len(lanes) * _LANE, [*labels, *shapes])


def comparison(runs: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Draw the runs' main numbers as bars, each group to its own scale."""
    rows = [
        ("mean wait, s", [n["waits"]["all"]["mean"] for _, n in runs]),
        ("95 % wait, s", [n["waits"]["all"]["p95"] for _, n in runs]),
        ("makespan, s", [n["makespanSeconds"] for _, n in runs]),
        ("preemptions", [sum(n["preemptions"].values()) for _, n in runs]),
    ]
    shapes, y = [], 40
    for label, values in rows:
        most = max(*values, 0) or 1
        shapes.append(f'<text x="8" y="{y + 13}">{escape(label)}</text>')
        for index, value in enumerate(values):
            width = value / most * (_WIDTH - 160)
            colour = _COLOURS[index % len(_COLOURS)]
            shapes.append(f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="16" fill="{colour}"/>')
            text = escape(f"{runs[index][0]}: {value}")
            shapes.append(f'<text x="{_LEFT + width + 6:.1f}" y="{y + 13}">{text}</text>')
            y += 20
        y += 14
    return _svg("what-if", y + 10, shapes)


def _svg(title: str, height: int, shapes: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 40}" height="{height}" '
        f'font-family="sans-serif" font-size="12">'
    )
    return "\n".join(
        [head, f'<text x="8" y="20" font-size="15">{escape(title)}</text>', *shapes, "</svg>", ""]
    )
