"""Many runs: new seeds on all cores until time is up, with progress and rate."""

import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from .known import known
from .run import Outcome, Run


@dataclass
class Total:
    """What many runs came to."""

    seeds: int = 0
    steps: int = 0
    jobs: int = 0
    messages: int = 0
    attempts: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)
    expected: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.steps += outcome.steps
        self.jobs += outcome.jobs
        self.messages += outcome.messages
        self.attempts += outcome.attempts
        self.faults.update(outcome.faults)
        self.actions.update(outcome.actions)
        if outcome.invariant:
            fault = known(outcome)
            if fault:
                self.expected[fault] += 1
            else:
                self.failed.append(outcome)

    @property
    def rate(self) -> float:
        return self.steps / max(time.monotonic() - self.began, 1e-9)

    def __str__(self) -> str:
        expected = f" ({sum(self.expected.values())} known)" if self.expected else ""
        return (
            f"sim: {self.seeds} seeds, {self.steps} steps, {self.jobs} jobs, "
            f"{sum(self.faults.values())} faults, "
            f"{len(self.failed)} violations{expected}; {self.rate:,.0f} steps/s"
        )


def play(steps: int, seed: int) -> Outcome:
    """Play one seed; only what can be sent between processes is kept."""
    outcome = Run(seed, steps).play()
    outcome.run = outcome.error = None
    outcome.choices = []
    return outcome


def many(
    seeds: Sequence[int] | None, steps: int, *, seconds: float | None = None, workers: int = 0
) -> Iterator[tuple[Total, Outcome]]:
    """Play *seeds*, or new ones without end; yields the total after each."""
    total = Total()
    until = None if seconds is None else time.monotonic() + seconds
    first = random.SystemRandom().randrange(1_000_000, 1 << 40)
    wanted: Iterator[int] = iter(seeds) if seeds is not None else count(first)
    workers = workers or os.cpu_count() or 1
    if workers == 1:
        for seed in wanted:
            outcome = play(steps, seed)
            total.add(outcome)
            yield total, outcome
            if until is not None and time.monotonic() > until:
                return
        return
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for outcome in pool.imap_unordered(partial(play, steps), _paced(wanted, total, workers)):
            total.add(outcome)
            yield total, outcome
            if until is not None and time.monotonic() > until:
                pool.terminate()
                return


def _paced(wanted: Iterator[int], total: Total, workers: int) -> Iterator[int]:
    """Hand seeds out no faster than they are played, as a pool would take them all at once."""
    for number, seed in enumerate(wanted):
        while number - total.seeds > 4 * workers:
            time.sleep(0.005)
        yield seed


class Progress:
    """A line that is written over, on terminals; now and then a line elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._next = 0.0

    def show(self, total: Total) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (0.5 if self._live else 30.0)
        print(
            f"\r{total}" if self._live else str(total),
            end="" if self._live else "\n",
            file=sys.stderr,
            flush=True,
        )

    def end(self) -> None:
        if self._live:
            print(file=sys.stderr)


__all__ = ["Progress", "Total", "many", "play"]
