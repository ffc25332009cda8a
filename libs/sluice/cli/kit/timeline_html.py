"""A timeline as a page that opens without a server: the lanes of the console, and the same as a table."""

from collections.abc import Iterator, Sequence
from datetime import UTC
from html import escape

from sluice.events.base import Micros
from sluice.replay.history.causes import Happening
from sluice.replay.history.lanes import PHASE, Lane, Mark, Span, tell

from .durations import moment

MAX_LANES = 400
"""What a page may hold and still be looked at; the last line says how many more there are."""
_STEPS_S = (0.001, 0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86400, 7 * 86400)

_STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#1a2228, #e7ecef); --soft: light-dark(#505e69,
  #a8b5be);
  --ground: light-dark(#fff, #161c20); --raised: light-dark(#eef2f4, #242d33); --line:
  light-dark(#d5dce1, #333e46);
  --bad: light-dark(#b0201a, #ff9b91); }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem; color: var(--ink); background:
  var(--ground); }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; } p, small {
  color: var(--soft); }
.lane { display: grid; grid-template-columns: minmax(6rem, 14rem) 1fr; gap: .8rem; align-items:
  center; padding: .15rem 0; }
.lane > span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.job { border-top: 1px solid var(--line); margin-top: .3rem; padding-top: .3rem; }
.track { position: relative; height: 1.8rem; background: var(--raised); border-radius: 4px; margin:
  0; padding: 0; list-style: none; }
.axis .track { background: none; height: 1.2rem; }
.axis small { position: absolute; border-left: 1px solid var(--soft); padding-left: .25rem;
  white-space: nowrap; }
.span { position: absolute; top: 2px; bottom: 2px; min-width: 2px; border-radius: 3px; overflow:
  hidden; white-space: nowrap;
  color: #fff; background: #505e69; font-size: .8rem; padding-left: .3rem; box-sizing: border-box;
  text-overflow: ellipsis; }
.narrow { padding: 0; text-indent: 100%; }
.queued, .pending { background: repeating-linear-gradient(135deg, #7c5613 0 6px, #6a490f 6px 12px); }
.quotareserved, .admitted { background: #5644a8; } .running, .ready { background: #0b6a70; } .stopping {
  background: #94440c; }
.suspended, .rejected, .retry { background: #a31d17; }
.mark { position: absolute; top: 0; bottom: 0; width: 1.2rem; margin-left: -.6rem; display: grid;
  place-items: center;
  color: var(--bad); font-weight: 800; text-shadow: 0 0 3px var(--ground), 0 0 3px var(--ground); }
.migrated { color: var(--ink); }
table { border-collapse: collapse; } th, td { text-align: left; padding: .25rem .8rem .25rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
"""


def page(found: Sequence[Happening], title: str) -> str:
    """Return the page: a lane for each job, variant, workload slice and check in *found*."""
    begin, end = (found[0].at, max(h.at for h in found)) if found else (0, 1)
    # A job's lanes stand together, its phases first.
    together: dict[str, list[Lane]] = {}
    for lane in tell(found).shown():
        together.setdefault(lane.job, []).append(lane)
    lanes = [lane for job in together.values() for lane in sorted(job, key=lambda each: each.kind != PHASE)]
    whole = (begin, max(end, begin + 1))
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta http-equiv="Content-Security-Policy" '
            """content="default-src 'none'; style-src 'unsafe-inline'">""",
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{escape(title)}</h1>",
            f"<p>{_time(begin)} to {_time(end)} UTC, messages {_messages(found)}</p>",
            *_axis(whole),
            *(line for lane in lanes[:MAX_LANES] for line in _drawn(lane, whole)),
            f"<p>{len(lanes) - MAX_LANES} more lanes are not drawn.</p>" if len(lanes) > MAX_LANES else "",
            "<h2>The same as a table</h2>",
            *_table(lanes[:MAX_LANES], end),
            "</main></body></html>",
            "",
        ]
    )


def _messages(found: Sequence[Happening]) -> str:
    return f"{found[0].seq} to {found[-1].seq}" if found else "none"


def _time(at: Micros) -> str:
    return moment(at, "%Y-%m-%d %H:%M:%S", UTC)


def _share(at: Micros, whole: tuple[Micros, Micros]) -> float:
    return max(0.0, min(100.0, (at - whole[0]) / (whole[1] - whole[0]) * 100))


def _axis(whole: tuple[Micros, Micros]) -> Iterator[str]:
    seconds = (whole[1] - whole[0]) / 1e6
    step = next((s for s in _STEPS_S if seconds / s <= 8), seconds / 8)
    ticks = [number * step for number in range(int(seconds / step) + 1)]
    yield '<div class="lane axis" aria-hidden="true"><span></span><div class="track">'
    for tick in ticks:
        if tick / seconds < 0.93:
            yield f'<small style="left:{tick / seconds * 100:.2f}%">+{_lasted(tick)}</small>'
    yield "</div></div>"


def _lasted(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3f}".rstrip("0").rstrip(".") + " s"
    if seconds < 7200:
        return f"{seconds / 60:.1f}".removesuffix(".0") + " min"
    return f"{seconds / 3600:.1f}".removesuffix(".0") + " h"


def _said(span: Span, end: Micros) -> str:
    until = end if span.end is None else span.end
    detail = f", {span.detail}" if span.detail else ""
    return f"{span.state}{detail}: {_lasted((until - span.begin) / 1e6)}, from {_time(span.begin)}"


def _drawn(lane: Lane, whole: tuple[Micros, Micros]) -> Iterator[str]:
    first = " job" if lane.kind == PHASE else ""
    name = escape(lane.name.removeprefix("default/"))
    label = f'<span title="{escape(lane.name)}">{name} <small>{lane.kind}</small></span>'
    yield f'<div class="lane{first}">{label}'
    yield f'<ul class="track" aria-label="{escape(f"{lane.kind} {lane.name}")}">'
    for span in lane.spans:
        left = _share(span.begin, whole)
        width = _share(whole[1] if span.end is None else span.end, whole) - left
        kind = span.state.lower() + (" narrow" if width < 4 else "")
        text = escape(f"{span.state} · {span.detail}" if span.detail else span.state)
        yield (
            f'<li class="span {escape(kind)}" style="left:{left:.3f}%;width:{width:.3f}%" '
            f'title="{escape(_said(span, whole[1]))}">{text}</li>'
        )
    for mark in lane.marks:
        yield (
            f'<li class="mark {mark.type.lower()}" style="left:{_share(mark.at, whole):.3f}%" '
            f'title="{escape(f"{mark.type}: {mark.text}")}">{"→" if mark.type == "Migrated" else "×"}</li>'
        )
    yield "</ul></div>"


def _table(lanes: Sequence[Lane], end: Micros) -> Iterator[str]:
    titles = "".join(f"<th>{title}</th>" for title in ("From", "For", "Lane", "State", "", "Message"))
    yield f"<table><thead><tr>{titles}</tr></thead><tbody>"
    rows: list[tuple[Micros, int, Span | Mark, Lane]] = [
        *((span.begin, span.from_seq, span, lane) for lane in lanes for span in lane.spans),
        *((mark.at, mark.seq, mark, lane) for lane in lanes for mark in lane.marks),
    ]
    for at, seq, what, lane in sorted(rows, key=lambda row: (row[0], row[1], row[3].name)):
        if isinstance(what, Mark):
            cells = ("", what.type, what.text)
        else:
            until = end if what.end is None else what.end
            still = "" if what.end is not None else ", still"
            cells = (_lasted((until - what.begin) / 1e6) + still, what.state, what.detail)
        lasted, state, detail = map(escape, cells)
        yield (
            f'<tr><td>{_time(at)}</td><td class="n">{lasted}</td>'
            f"<td>{escape(lane.name)} <small>{lane.kind}</small></td>"
            f'<td>{state}</td><td>{detail}</td><td class="n">{seq}</td></tr>'
        )
    yield "</tbody></table>"
