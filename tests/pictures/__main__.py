"""Runs a cell under load, asks all that the dashboards ask, and draws them: `make dashboards-pictures`.

python -m tests.pictures [FOLDER]

Writes FOLDER/<dashboard>.png (without Chromium: .html), and into tests/unit/docs/panels_seen.json how many
series each panel had, for the table in docs/metrics.md; two of the pictures are there, too. Exits 1 if a
panel shows nothing.
"""

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.browser.conftest import CHROMIUM, FLAGS
from tests.e2e.dashboard_load import borrow, ends, grow, prepare, race, refuse, traffic
from tests.e2e.watched_cell import PROMETHEUS, Cell, watched
from tests.unit.docs.dashboards import BOARDS, FOLDER, SEEN

from .drawing import Series, Span, page

VARIABLES = {"$queue": ".*", "$__rate_interval": "60s"}
"""As Grafana has them: all queues; four times the interval of scrapes that it takes for given, 15 s."""
QUIET_S = 20.0
"""Of traffic alone before and after what happens once."""
POINTS = 180
SHOWN = ("cell", "slo")
"""In docs/metrics.md."""
IMAGES = Path(__file__).parents[2] / "docs/images"


def main(folder: Path) -> int:
    if PROMETHEUS is None:
        sys.exit("Prometheus is not installed; Debian has it as `prometheus`")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sluice-pictures-") as home, watched(Path(home)) as cell:
        begin = time.time()
        _load(cell)
        span = Span(begin, time.time(), (time.time() - begin) / POINTS)
        dashboards = {name: json.loads((FOLDER / f"{name}.json").read_text()) for name in BOARDS}
        answers = {
            name: {panel["id"]: list(_answers(cell, panel, span)) for panel in _panels(found)}
            for name, found in dashboards.items()
        }
    pages = {name: page(found, answers[name], span) for name, found in dashboards.items()}
    drawn = _draw(folder, pages)
    seen = {
        name: {panel["title"]: len(answers[name][panel["id"]]) for panel in _panels(found)}
        for name, found in dashboards.items()
    }
    SEEN.write_text(json.dumps(seen, indent=2) + "\n")
    for path, (name, counts) in zip(drawn, seen.items(), strict=True):
        empty = [title for title, count in counts.items() if not count]
        said = f"; shows nothing: {', '.join(empty)}" if empty else ""
        print(f"{path}  {BOARDS[name].title}: {len(counts)} panels, {sum(counts.values())} series{said}")
    return 0 if all(all(counts.values()) for counts in seen.values()) else 1


def _panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def _load(cell: Cell) -> None:
    prepare(cell)
    borrow(cell)
    grow(cell)
    with traffic(cell):
        time.sleep(QUIET_S)
        ends(cell, 1)
        refuse(cell)
        race(cell)
        for number in (2, 3, 4):
            ends(cell, number)
        refuse(cell)
        grow(cell)
        time.sleep(QUIET_S)


def _answers(cell: Cell, panel: Mapping[str, Any], span: Span) -> Iterator[Series]:
    """Yield what has numbers at all."""
    for target in panel["targets"]:
        query = target["expr"]
        for name, value in VARIABLES.items():
            query = query.replace(name, value)
        for found in cell.over_time(query, *span):
            legend = target["legendFormat"]
            for label in re.findall(r"{{(\w+)}}", legend):
                legend = legend.replace(f"{{{{{label}}}}}", found["metric"].get(label, ""))
            numbers = [(float(at), float(value)) for at, value in found["values"]]
            points = [(at, value) for at, value in numbers if value - value == 0]
            if points:
                yield Series(legend, points)


def _draw(folder: Path, pages: Mapping[str, tuple[str, int]]) -> list[Path]:
    """Write the pictures, as PNG where there is a browser."""
    written = []
    for name, (text, _) in pages.items():
        written.append(folder / f"{name}.html")
        written[-1].write_text(text)
    if CHROMIUM is None:
        return written
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for path, (_, high) in zip(written, pages.values(), strict=True):
            tab = browser.new_page(viewport={"width": 960, "height": high})
            tab.goto(path.resolve().as_uri())
            tab.screenshot(path=path.with_suffix(".png"))
            path.unlink()
        browser.close()
    for name in SHOWN:
        shutil.copyfile(folder / f"{name}.png", IMAGES / f"dashboard-{name}.png")
    return [path.with_suffix(".png") for path in written]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("dist/dashboards")))
