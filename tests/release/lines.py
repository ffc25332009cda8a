"""Lines of the release check: what each found, and the table of all."""

import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Outcome(StrEnum):
    """What became of a line."""

    PASS = "pass"
    SKIP = "skip"
    FAIL = "FAIL"


class Skipped(Exception):
    """A line cannot be looked at here; says why."""


class Failed(Exception):
    """What a line looks at is not as it must be; says what."""


class Line(NamedTuple):
    """One thing to look at. `look` says in a few words what it found; raises `Skipped` or `Failed`."""

    name: str
    look: Callable[[], str]
    after: tuple[str, ...] = ()
    """Lines without which this one has nothing to look at."""


class Result(NamedTuple):
    """A line that was looked at."""

    name: str
    outcome: Outcome
    note: str
    seconds: float


def look_at(lines: Iterable[Line], show: Callable[[Result], None]) -> list[Result]:
    """Look at all *lines* in order; one that fails keeps none from its turn but those that come after it."""
    found: dict[str, Result] = {}
    for line in lines:
        began = time.monotonic()
        outcome, note = _looked_at(line, found)
        found[line.name] = Result(line.name, outcome, note, time.monotonic() - began)
        show(found[line.name])
    return list(found.values())


def _looked_at(line: Line, found: Mapping[str, Result]) -> tuple[Outcome, str]:
    missing = [name for name in line.after if found[name].outcome is not Outcome.PASS]
    if missing:
        return Outcome.SKIP, f"without: {', '.join(missing)}"
    try:
        return Outcome.PASS, line.look()
    except Skipped as reason:
        return Outcome.SKIP, str(reason)
    except Failed as reason:
        return Outcome.FAIL, str(reason)
    except Exception as error:
        # A fault of the check itself is no reason to let a release pass, nor to leave the rest unseen.
        return Outcome.FAIL, f"{type(error).__name__}: {error}"


def table(results: Sequence[Result]) -> str:
    """Return all lines with what became of them, and their sum. Notes of several lines show the first."""
    width = max(len(one.name) for one in results)
    rows = [
        f"{one.name:{width}}  {one.outcome:4}  {one.seconds:5.1f}s  {one.note.strip().partition(chr(10))[0]}"
        for one in results
    ]
    sums = [f"{sum(one.outcome is kind for one in results)} {kind.lower()}" for kind in Outcome]
    return "\n".join([*rows, "", f"release-check: {', '.join(sums)}"])


def status(results: Sequence[Result]) -> int:
    """Return the exit status: 0 when nothing failed, else 1. What was skipped is for people to judge."""
    return int(any(one.outcome is Outcome.FAIL for one in results))


def run(
    *words: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None, within_s: float = 600
) -> str:
    """Run a program; return what it printed.

    Raises:
        Failed: it ended otherwise than with 0, or not in time; has its last lines.
    """
    command = [str(word) for word in words]
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, timeout=within_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"`{' '.join(command)}` had not ended after {within_s:g} s") from None
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-30:])
        raise Failed(f"`{' '.join(command)}` ended with {done.returncode}\n{last}")
    return done.stdout
