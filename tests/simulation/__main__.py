"""`python -m tests.simulation`: simulate the whole cell.

python -m tests.simulation                     new seeds on all cores, for a minute
python -m tests.simulation --seed 7 --steps N  one seed
python -m tests.simulation --seeds 1-50        these
python -m tests.simulation --total 20000000    new seeds until so many steps were played
python -m tests.simulation shrink 7            the shortest history that breaks what seed 7 breaks
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .coverage import report
from .known import known
from .many import Progress, Total, many
from .mended import ELSEWHERE, MENDED, Mutant
from .mutants import random_mutants, table
from .run import Run, quiet
from .shrink import Shrinker
from .story import golden, story

SHORT = 400
"""So much of a violation is printed among others; `--seed` tells all of it."""


def main(arguments: Sequence[str]) -> int:
    quiet()
    if arguments[:1] == ["shrink"]:
        return _shrink(arguments[1:])
    if arguments[:1] == ["coverage"]:
        return _coverage(arguments[1:])
    if arguments[:1] == ["mutants"]:
        return _mutants(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", help="from-to")
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--total", type=int, help="play new seeds until so many steps were played")
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed, options.steps)
    seeds = None
    if options.seeds:
        seeds = _range(options.seeds)
    seconds = None if seeds is not None or options.total else options.minutes * 60
    return _many(seeds, options.steps, seconds, options.workers, options.total)


def _one(seed: int, steps: int) -> int:
    outcome = Run(seed, steps).play()
    print(outcome)
    print(f"actions: {_listed(outcome.actions)}")
    print(f"faults: {_listed(outcome.faults)}")
    if outcome.error is not None and outcome.invariant == "no-exception":
        sys.excepthook(type(outcome.error), outcome.error, outcome.error.__traceback__)
    return 1 if outcome.invariant else 0


def _many(
    seeds: Sequence[int] | None, steps: int, seconds: float | None, workers: int, enough: int | None
) -> int:
    progress, total = Progress(), Total()
    try:
        for total, outcome in many(seeds, steps, seconds=seconds, enough=enough, workers=workers):
            if outcome.invariant:
                fault = known(outcome)
                print(f"{str(outcome)[:SHORT]}{f' [known: {fault}]' if fault else ''}", flush=True)
            progress.show(total)
    except KeyboardInterrupt:
        pass
    progress.end()
    if enough is not None:
        for line in total.coverage.lines():
            print(line)
    print(total)
    return 1 if total.failed else 0


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items(), key=lambda item: -item[1]))


def _shrink(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation shrink")
    parser.add_argument("seed", type=int)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--output", type=Path, help="where the golden log goes (.slog)")
    options = parser.parse_args(arguments)
    outcome = Run(options.seed, options.steps).play()
    print(outcome)
    if not outcome.invariant:
        return 0
    shrinker = Shrinker(outcome, options.seconds)
    found = shrinker.shrink()
    print(f"{len(outcome.choices)} steps became {len(found.choices)}, in {shrinker.tries} tries")
    assert found.run is not None
    for line in story(found.run):
        print(line)
    print(found)
    if options.output is not None:
        golden(found.run, options.output)
        print(f"sluice replay timeline -l {options.output} JOB shows what happened to a job")
    return 1


def _coverage(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation coverage")
    parser.add_argument("--seeds", default="1-50", help="from-to")
    parser.add_argument("--steps", type=int, default=2_000)
    options = parser.parse_args(arguments)
    for line in report(_range(options.seeds), options.steps):
        print(line, flush=True)
    return 0


def _mutants(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation mutants")
    parser.add_argument("names", nargs="*", help="those of these names only")
    parser.add_argument("--random", type=int, default=0, help="so many random changes of the core instead")
    parser.add_argument("--seeds", default="1-1500", help="from-to")
    parser.add_argument(
        "--most", type=int, default=80, help="so many of these for each, those of its scene and theme first"
    )
    parser.add_argument("--steps", type=int, default=2_000)
    options = parser.parse_args(arguments)
    mutants: Sequence[Mutant] = MENDED
    if options.random:
        mutants = list(random_mutants(1, options.random))
    wanted = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
    for line in table(wanted, _range(options.seeds), options.steps, options.most):
        print(line, flush=True)
    if not options.random and not options.names:
        for fault, part, tests in ELSEWHERE:
            print(f"{fault:<16} held by {tests}   {part}")
    return 0


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
