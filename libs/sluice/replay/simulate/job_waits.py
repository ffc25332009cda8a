"""The waits of each job in the runs of a what-if, side by side: would mine have waited?"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from sluice.core.timing import MICROS_PER_S
from sluice.events.base import Micros

from .lives import Life
from .what_if import Played, WhatIf


class JobWait(NamedTuple):
    """What one run came to for a job."""

    first: Micros | None
    """From its creation to its first admission; None: it was not admitted."""
    waited: Micros
    """In all; while it waits, to the end of the run."""
    after_preemption: Micros
    """Of `waited`, what followed preemptions."""
    flavors: Sequence[str]
    preemptions: int
    ended: bool
    waits: bool
    """Does it wait at the end of the run?"""


class JobRow(NamedTuple):
    """A job, and what came of it by name of the run; None: it is not in that run."""

    job: str
    """`namespace/name`, of the second of that name with `#2` behind it, and so on."""
    queue: str
    waits: Mapping[str, JobWait | None]

    def wait(self, run: str) -> JobWait | None:
        return self.waits.get(run)


def rows(found: WhatIf, pattern: str = "*") -> list[JobRow]:
    """Return the jobs that were played: first those whose waits differ most between the runs compared.

    *pattern*: of names with their namespace, or without it where it is `default`. Of jobs that the changes
    cannot reach nothing is told: they did as recorded.
    """
    by_run = {run.name: _lives(run) for run in found.runs}
    names = dict.fromkeys(name for lives in by_run.values() for name in lives)
    told = [
        JobRow(
            name,
            next(lives[name].queue for lives in by_run.values() if name in lives),
            {
                run.name: _wait(by_run[run.name][name], run.now) if name in by_run[run.name] else None
                for run in found.runs
            },
        )
        for name in names
        if fnmatchcase(name, pattern) or fnmatchcase(name.removeprefix("default/"), pattern)
    ]
    base, last = compared(found)
    return sorted(told, key=lambda row: (-_apart(row.wait(base), row.wait(last)), row.job))


def compared(found: WhatIf) -> tuple[str, str]:
    """Return the names of the two runs whose difference is the changes' doing."""
    names = [run.name for run in found.runs]
    return ("replayed" if "replayed" in names[:-1] else names[0]), names[-1]


def _lives(run: Played) -> dict[str, Life]:
    found: dict[str, Life] = {}
    for workload, life in run.collector.lives.items():
        name, number = (base := run.collector.name(workload)), 2
        while name in found:
            name, number = f"{base}#{number}", number + 1
        found[name] = life
    return found


def _wait(life: Life, now: Micros) -> JobWait:
    waited, after = life.waits_at(now)
    return JobWait(
        None if life.admitted is None else life.admitted - life.created,
        waited,
        after,
        tuple(life.flavors),
        life.preemptions,
        not life.there,
        life.waits_since is not None,
    )


def _apart(before: JobWait | None, after: JobWait | None) -> float:
    """Return by how much a job's waits differ; one that one run has, and the other not, stands at the end."""
    if before is None or after is None:
        return -1.0
    if before == after:
        return 0.0
    # Another flavor, or preemption, is a difference too.
    return 1.0 + abs(after.waited - before.waited) + 1e12 * ((before.first is None) != (after.first is None))


def plain(told: Iterable[JobRow]) -> list[dict[str, Any]]:
    """Return rows as plain data; times in seconds."""
    return [
        {
            "job": row.job,
            "queue": row.queue,
            "runs": {
                name: None
                if wait is None
                else {
                    "firstSeconds": None if wait.first is None else _seconds(wait.first),
                    "waitedSeconds": _seconds(wait.waited),
                    "afterPreemptionSeconds": _seconds(wait.after_preemption),
                    "flavors": list(wait.flavors),
                    "preemptions": wait.preemptions,
                    "ended": wait.ended,
                    "waits": wait.waits,
                }
                for name, wait in row.waits.items()
            },
        }
        for row in told
    ]


def _seconds(time: Micros) -> float:
    return round(time / MICROS_PER_S, 3)


__all__ = ["JobRow", "JobWait", "compared", "rows"]
