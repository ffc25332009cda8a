"""Heavy questions, for a process of its own: why, simulate, what-if, loops, diff."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.log.errors import EventLogError
from sluice.replay.explain import submission
from sluice.replay.explain.forecast import Change, forecast
from sluice.replay.explain.others import others_at
from sluice.replay.explain.submission import InvalidManifestError
from sluice.replay.explain.why import explain
from sluice.replay.explain.why_text import plain_words
from sluice.replay.lint import preemption_loops
from sluice.replay.simulate import report
from sluice.replay.simulate.changes import ChangeError, Changes, parse_setting
from sluice.replay.simulate.what_if import what_if
from sluice.replay.source import moments
from sluice.replay.source.errors import UnknownNameError, UnknownWorkloadError
from sluice.replay.source.source import Source
from sluice.replay.source.suggest import nearest
from sluice.replay.source.time_travel import RangeError, scheduler_at
from sluice.replay.views import diff, overview

from .answers import WhatIfRequest
from .questions import Told

MOST_JOBS = 3_000
"""Of so many jobs at most a what-if tells the waits."""


def apart(work: Callable[[], Any]) -> Callable[[], Told]:
    """Return what a child runs: *work* in a thread, as the parent's event loop is not the child's."""

    def run() -> Told:
        with ThreadPoolExecutor(1) as alone:
            return alone.submit(told, work).result()

    return run


def told(work: Callable[[], Any]) -> Told:
    """Return the answer of *work*, or what is wrong with the question."""
    try:
        return Told(work())
    except UnknownNameError as error:
        near = nearest(error.name, error.known)
        return Told(None, f"there is nothing called {error.name!r}", "NotFound", _hint(near))
    except UnknownWorkloadError as error:
        near = nearest(error.name, error.known)
        return Told(None, f"there is no workload or job {error.name!r} then", "NotFound", _hint(near))
    except (ChangeError, RangeError, moments.MomentError, InvalidManifestError, *UNREADABLE) as error:
        return Told(None, str(error), "BadRequest")
    except EventLogError as error:
        return Told(None, str(error), "Unavailable")


def _hint(near: str | None) -> str:
    return f"did you mean {near}?" if near else ""


def why(source: Source, seq: int, name: str) -> dict[str, Any]:
    """Return what `sluice why` says of a job or workload at *seq*."""
    fold = scheduler_at(source, seq)
    found = explain(fold.state, name, seq, fold.at, others=others_at(source, seq, fold, name))
    return {"text": list(plain_words(found)), "report": msgspec.to_builtins(found.plain())}


def simulate(source: Source, seq: int, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what `sluice simulate` says of a manifest at *seq*."""
    found = submission.simulate(source, seq, manifest)
    return {"text": list(found.lines()), "report": msgspec.to_builtins(found.plain())}


def effects(source: Source, seq: int, change: Change) -> list[dict[str, Any]]:
    """Return what would follow from a change at *seq*, by what the scheduler would decide."""
    return [found._asdict() for found in forecast(source, seq, change)]


def what_would_have_been(source: Source, asked: WhatIfRequest) -> dict[str, Any]:
    """Return what `sluice replay what-if --per-job -o json` says, of the jobs that differ most."""
    changes = Changes([parse_setting(text) for text in asked.set], list(asked.apply), list(asked.drop))
    if asked.from_:
        if asked.from_.isdigit():
            changes.since = moments.moment_of(source, moments.sequence_of(source, asked.from_))
        else:
            changes.since = moments.time_of(asked.from_, moments.moment_of(source, source.end))
    found = what_if(source, changes, control=asked.control or not changes)
    return {"text": [], "report": msgspec.to_builtins(report.compared(found, "*", MOST_JOBS))}


def loops(source: Source, until: int) -> list[tuple[str, int, int, str]]:
    """Return preemption loops and thrashing: (kind, sequence, time, text)."""
    return [
        (found.invariant, found.seq, found.at, found.text)
        for found in preemption_loops.find(source)
        if found.seq <= until
    ]


def difference(source: Source, before: int, after: int) -> dict[str, Any]:
    """Return what `sluice replay diff -o json` says."""
    states = overview.both(source, before, after)
    return msgspec.to_builtins(diff.whole(overview.compared(*states)))  # type: ignore[no-any-return]


def state(source: Source, seq: int, sections: tuple[str, ...], name: str) -> dict[str, Any]:
    """Return what `sluice replay state -o json` says."""
    if name:
        return msgspec.to_builtins(overview.look_at(source, seq, name))  # type: ignore[no-any-return]
    found = overview.look(source, seq, sections) if sections else overview.look(source, seq)
    return msgspec.to_builtins(found)  # type: ignore[no-any-return]
