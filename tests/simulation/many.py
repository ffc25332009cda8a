"""Many runs on all cores: given seeds, or new ones until time is up or steps enough were played."""

import gc
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection, wait

from .coverage import Branches, Coverage
from .known import known
from .run import Outcome, Run

SEEDS_EACH = 400
"""After so many seeds a process makes room for a new one, whatever it has kept by then."""
SLOWEST_S = 600.0
"""A seed that takes longer is given up, and reported."""
BRANCHES_EVERY = 25
"""Of every so many seeds it is noted which branches they take, which takes its time."""
DEATHS = 20
"""After so many processes that died nobody goes on."""


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
    coverage: Coverage = field(default_factory=Coverage)
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


def play(steps: int, seed: int) -> tuple[Outcome, Coverage]:
    """Play one seed; only what can be sent between processes is kept."""
    run = Run(seed, steps)
    coverage = Coverage()
    if seed % BRANCHES_EVERY:
        outcome = run.play()
    else:
        with Branches() as branches:
            outcome = run.play()
        coverage.ways |= branches.ways()
    coverage.add(run, outcome)
    outcome.run = outcome.error = None
    outcome.choices = []
    return outcome, coverage


def spare_collections() -> None:
    """Nothing that was imported is garbage; of what a run makes, little is before its end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@dataclass(eq=False)
class Worker:
    """A process that plays one seed after another."""

    steps: int
    seed: int | None = None
    """That it plays."""
    since: float = 0.0
    left: int = SEEDS_EACH

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, self.steps), daemon=True)
        self.process.start()
        theirs.close()

    def begin(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.left -= 1
        self.pipe.send(seed)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def heard(self) -> tuple[Outcome, Coverage]:
        """Return what came of the seed; that it died is a violation of its own."""
        try:
            found: tuple[Outcome, Coverage] = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return self.lost(f"the process that played it died, exit code {self.process.exitcode}")
        return found

    def lost(self, text: str) -> tuple[Outcome, Coverage]:
        self.left = 0
        return Outcome(self.seed or 0, invariant="worker", text=text), Coverage()


def _work(pipe: Connection, steps: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            pipe.send(play(steps, pipe.recv()))
    except (EOFError, OSError):
        return  # nobody listens any more


def many(
    seeds: Sequence[int] | None,
    steps: int,
    *,
    seconds: float | None = None,
    enough: int | None = None,
    workers: int = 0,
) -> Iterator[tuple[Total, Outcome]]:
    """Play *seeds*, or new ones until *seconds* are over or *enough* steps were played.

    Yields the total after each.
    """
    total = Total()
    until = None if seconds is None else time.monotonic() + seconds
    first = random.SystemRandom().randrange(1_000_000, 1 << 40)
    wanted: Iterator[int] = iter(seeds) if seeds is not None else count(first)
    spare_collections()
    at_work = [Worker(steps) for _ in range(workers or os.cpu_count() or 1)]
    deaths = 0
    try:
        _go_on(at_work, wanted)
        while at_work:
            for worker, (outcome, coverage) in _next(at_work):
                worker.seed = None
                total.add(outcome)
                total.coverage.update(coverage)
                deaths += outcome.invariant == "worker"
                yield total, outcome
                if worker.left <= 0:
                    worker.end()
                    at_work[at_work.index(worker)] = Worker(steps)
            over = until is not None and time.monotonic() > until
            if over or (enough is not None and total.steps >= enough) or deaths >= DEATHS:
                return
            _go_on(at_work, wanted)
    finally:
        for worker in at_work:
            worker.end()


def _go_on(at_work: list[Worker], wanted: Iterator[int]) -> None:
    """Give those that have nothing to do the next seeds; send them home if there are none."""
    for worker in [worker for worker in at_work if worker.seed is None]:
        seed = next(wanted, None)
        if seed is None:
            worker.end()
            at_work.remove(worker)
        else:
            worker.begin(seed)


def _next(at_work: list[Worker]) -> Iterator[tuple[Worker, tuple[Outcome, Coverage]]]:
    """Wait for what comes next."""
    ready = wait([worker.pipe for worker in at_work], timeout=10.0)
    for worker in list(at_work):
        if worker.pipe in ready:
            yield worker, worker.heard()
        elif time.monotonic() - worker.since > SLOWEST_S:
            yield worker, worker.lost(f"it is not over after {SLOWEST_S:.0f} s")


class Progress:
    """Now and then a line: on terminals it is written over."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._every = 10.0 if self._live else 60.0
        self._next = time.monotonic() + self._every

    def show(self, total: Total) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        if self._live:
            print(f"\r{total}", end="", file=sys.stderr, flush=True)
        else:
            print(total, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._live:
            print(file=sys.stderr)


__all__ = ["Progress", "Total", "many", "play", "spare_collections"]
