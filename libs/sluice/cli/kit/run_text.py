"""Results of checks and runs of a log, as lines for people."""

from collections.abc import Iterator
from typing import Any

import msgspec

from sluice.replay.simulate.what_if import STALLED_US, WhatIf
from sluice.replay.verify.whole_log import Checked

from .durations import human
from .table import aligned

SHOWN = 5
MOST_NAMES = 20
"""So many classes, and queues, have a line each: those that the runs differ in most."""


def checked_lines(found: Checked) -> Iterator[str]:
    """Yield what a check came to; with a difference its inputs, what was expected, and what was found."""
    since = f" from the snapshot at {found.start}" if found.start else ""
    divergence = found.divergence
    if divergence is None:
        yield f"{found.writer}: {found.steps} decisions, {found.events} events{since}: all as they stand"
        return
    yield (
        f"{found.writer}: {found.steps} decisions as they stand{since}, then commit {divergence.seq} "
        f"does not: {divergence.reason}"
    )
    yield f"  decided at {divergence.at}, after everything up to {divergence.upto}"
    yield "  inputs since the decision before:"
    for entry in found.inputs:
        yield f"    {entry.seq} {entry.suffix}"
    expected, now = list(divergence.expected), list(divergence.found)
    index = next(
        (n for n, pair in enumerate(zip(expected, now, strict=False)) if pair[0] != pair[1]),
        min(len(expected), len(now)),
    )
    yield f"  first different event: number {index + 1} of {len(expected)} (log) and {len(now)} (now)"
    yield f"    expected: {_text(expected, index)}"
    yield f"    found:    {_text(now, index)}"


def _text(events: list[Any], index: int) -> str:
    return msgspec.json.encode(events[index]).decode() if index < len(events) else "nothing"


def compared_lines(found: WhatIf) -> Iterator[str]:
    """Yield the runs side by side, one line per number that any of them has."""
    rows: list[tuple[str, list[Any]]] = [("", [run.name for run in found.runs])]
    rows += [(label, [_dig(run.numbers, path) for run in found.runs]) for label, path in _numbers(found)]
    if any(run.assumed for run in found.runs):
        rows.append(("run times assumed", [run.assumed for run in found.runs]))
    if any(run.guessed for run in found.runs):
        rows.append(("check verdicts assumed", [run.guessed for run in found.runs]))
    told = [(label, *map(_cell, values)) for label, values in rows if values != [None] * len(values)]
    yield from aligned(told, right=range(1, len(found.runs) + 1))
    for key, what in (("waitsByClass", "classes"), ("waitsByQueue", "queues")):
        if (more := len(_names(found, key)) - MOST_NAMES) > 0:
            yield ""
            yield f"Not shown: {more} {what} whose waits differ least between the runs; `-o json` has them."
    yield from _ended(found)
    yield from _likeness(found)


def _ended(found: WhatIf) -> Iterator[str]:
    """Say of each run that had no end what has not come to one."""
    for run in found.runs:
        if run.cut_off is None:
            continue
        jobs = [f"{job} ({where})" for job, where in run.cut_off.items()]
        more = f" and {len(jobs) - SHOWN} more" if len(jobs) > SHOWN else ""
        yield ""
        yield (
            f"`{run.name}` was cut off: nothing more came from outside, and no job had finished for "
            f"{human(STALLED_US / 1e6)}; it would go on like that without end."
        )
        yield f"  Not ended: {', '.join(jobs[:SHOWN])}{more}"


def _likeness(found: WhatIf) -> Iterator[str]:
    """Say how far the run without changes is the recorded one."""
    if found.changes_nothing:
        yield ""
        yield "The changes change nothing: what they set stands there already, or is of later than the log."
    if found.runs[0].name != "recorded":
        return
    count = len(found.runs[0].decisions)
    steps = sum(check.steps for check in found.followed)
    yield ""
    if found.reach is not None and len(found.reach) < found.reach.of:
        yield (
            f"The change can reach {len(found.reach)} of {found.reach.of} jobs: those of its cohort trees. "
            "All others did as recorded, in every run."
        )
    if found.common is None:
        yield (
            "Not replayed without the changes: `changed` can differ from `recorded` by more than they do, "
            "where a free run, or today's code, decides otherwise than was recorded."
        )
    if not found.reproduced:
        yield "The log does not decide itself again with this code; what follows from there is not what was:"
        for check in found.followed:
            yield from checked_lines(check)
    elif found.common is None:
        return
    elif found.same_decisions:
        yield f"Replayed without changes, all {count} decisions are the recorded ones, in content and order."
    else:
        yield (
            f"Up to the first change, {steps} steps were decided again exactly. Replayed freely from there, "
            f"without the changes, {found.common} of {count} decisions are the recorded ones until the first "
            f"that differs{_apart(found)}."
        )


def _apart(found: WhatIf) -> str:
    return " in its cohort trees" if found.reach is not None and len(found.reach.parts) > 1 else ""


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)


def _dig(numbers: dict[str, Any], path: tuple[str, ...]) -> Any:
    here: Any = numbers
    for part in path:
        here = here.get(part) if isinstance(here, dict) else None
    return here


def _numbers(found: WhatIf) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in ("workloads", "admitted", "finished"):
        yield name, (name,)
    if any(run.numbers["neverAdmitted"] for run in found.runs):
        yield "never admitted (not in waits)", ("neverAdmitted",)
    yield "makespan, s", ("makespanSeconds",)
    for name in ("mean", "p50", "p95", "max"):
        yield f"wait {name}, s", ("waits", "all", name)
    for name in _most_different(found, "waitsByClass"):
        # Of those without a class, their priority.
        label = "priority" if name.lstrip("-").isdecimal() else "class"
        yield f"mean wait, {label} {name}, s", ("waitsByClass", name, "mean")
    for name in _most_different(found, "waitsByQueue"):
        yield f"mean wait, queue {name}, s", ("waitsByQueue", name, "mean")
    for name in _names(found, "preemptions"):
        yield f"preemptions, {name}", ("preemptions", name)
    yield "migrations", ("migrations",)
    for name in _names(found, "useSeconds"):
        yield f"use of {name}, unit-s", ("useSeconds", name)
    for name in _names(found, "borrowedSeconds"):
        yield f"borrowed {name}, unit-s", ("borrowedSeconds", name)
    yield "fairness (Jain)", ("fairness",)


def _names(found: WhatIf, key: str) -> list[str]:
    return sorted({name for run in found.runs for name in run.numbers.get(key, {})})


def _most_different(found: WhatIf, key: str) -> list[str]:
    """Return the names whose mean waits differ most between the runs, in order of their names."""

    def apart(name: str) -> float:
        means = [run.numbers.get(key, {}).get(name, {}).get("mean") or 0 for run in found.runs]
        return max(means) - min(means)

    return sorted(sorted(_names(found, key), key=lambda name: (-apart(name), name))[:MOST_NAMES])
