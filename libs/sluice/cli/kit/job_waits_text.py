"""The waits of jobs in the runs of a what-if, as lines for people."""

from collections.abc import Iterator, Sequence

from sluice.core.timing import MICROS_PER_S
from sluice.events.base import Micros
from sluice.replay.simulate import job_waits
from sluice.replay.simulate.job_waits import JobRow, JobWait
from sluice.replay.simulate.what_if import WhatIf

from .durations import human
from .table import aligned

SHOWN = 30
_HEADER = ("JOB", "QUEUE", "", "FIRST ADMITTED AFTER", "WAITS IN ALL", "AFTER PREEMPTION", "PREEMPTED", "ON")
_LATER = "+"
"""Behind a wait that goes on when the run ends."""


def lines(found: WhatIf, pattern: str) -> Iterator[str]:
    """Yield how long each job that *pattern* names waits in the two runs compared, most different first."""
    told = job_waits.rows(found, pattern)
    before, after = job_waits.compared(found)
    yield ""
    if not told:
        yield f"No job {pattern!r} was played: what the changes cannot reach does as recorded."
        return
    yield from aligned([_HEADER, *(cells for row in told[:SHOWN] for cells in _pair(row, before, after))])
    if any((wait := row.wait(run)) is not None and wait.waits for row in told for run in (before, after)):
        yield f"{_LATER} it still waits when the run ends."
    if len(told) > SHOWN:
        same = sum(row.wait(before) == row.wait(after) for row in told)
        less = f"{len(told) - SHOWN} more jobs differ less ({same} of {len(told)} not at all)"
        yield f"{less}; `-o json` has them."


def _pair(row: JobRow, before: str, after: str) -> Iterator[Sequence[str]]:
    if row.wait(before) == row.wait(after):
        yield (row.job, row.queue, "same", *_cells(row.wait(after)))
        return
    yield (row.job, row.queue, before, *_cells(row.wait(before)))
    yield ("", "", after, *_cells(row.wait(after)))


def _cells(wait: JobWait | None) -> Sequence[str]:
    if wait is None:
        return ("left out", "", "", "", "")
    goes_on = _LATER if wait.waits else ""
    return (
        "never" if wait.first is None else _time(wait.first),
        _time(wait.waited) + goes_on,
        _time(wait.after_preemption),
        str(wait.preemptions),
        ",".join(wait.flavors),
    )


def _time(time: Micros) -> str:
    return human(time / MICROS_PER_S)
