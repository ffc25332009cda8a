"""`python -m tests.conformance`: a table per suite, the failures, and the three counts as the last line."""

import argparse
import fnmatch
import sys
from collections import Counter
from collections.abc import Sequence

from .framework import (
    Adapter,
    Case,
    Failed,
    LeftOut,
    Outcome,
    Passed,
    Suite,
    adapter_of,
    adapters,
    directory,
    outcome,
    suites,
)

Results = list[tuple[Case, Outcome]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when nothing failed; 1 on failures; 2 when there is nothing to run."""
    options = _options(arguments)
    folder = directory()
    if not folder.is_dir():
        print(f"{folder} is not there: set SLUICE_CONFORMANCE_DIR to the folder with the cases")
        print("conformance: 0 passed, 0 failed, 0 left out")
        return 2
    known = adapters()
    totals: Counter[type[Outcome]] = Counter()
    print(f"{'suite':<52} {'passed':>7} {'failed':>7} {'left out':>9}")
    details: list[str] = []
    for suite in suites(folder):
        results = _run(suite, adapter_of(suite.name, known), options)
        if not results:
            continue
        counts: Counter[type[Outcome]] = Counter(type(result) for _, result in results)
        totals += counts
        row = f"{suite.name:<52} {counts[Passed]:>7} {counts[Failed]:>7} {counts[LeftOut]:>9}"
        print(f"{row}{_why(results)}", flush=True)
        details += _details(results, verbose=options.verbose)
        if options.verbose:
            details += _notes(suite, adapter_of(suite.name, known))
    for line in details:
        print(line)
    print(
        f"conformance: {totals[Passed]} passed, {totals[Failed]} failed, {totals[LeftOut]} left out",
        flush=True,
    )
    return 1 if totals[Failed] else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--suite", default="*", metavar="GLOB", help="only suites like this: 'scheduler.*'")
    parser.add_argument("--case", default=None, metavar="NAME", help="only this case (a glob works too)")
    parser.add_argument("-v", "--verbose", action="store_true", help="also what passed and what is left out")
    return parser.parse_args(arguments)


def _run(suite: Suite, adapter: Adapter | None, options: argparse.Namespace) -> Results:
    if not fnmatch.fnmatchcase(suite.name, options.suite):
        return []
    name = options.case
    cases = [
        case
        for case in suite.cases
        if name is None or case.name == name or fnmatch.fnmatchcase(case.name, name)
    ]
    return [(case, outcome(case, adapter)) for case in cases]


def _why(results: Results) -> str:
    """Return the reason when one and the same leaves out the whole suite."""
    reasons = {result.reason if isinstance(result, LeftOut) else "" for _, result in results}
    reason = reasons.pop() if len(reasons) == 1 else ""
    return f"  {reason}" if reason else ""


def _details(results: Results, *, verbose: bool) -> list[str]:
    lines: list[str] = []
    for case, result in results:
        match result:
            case Failed(message):
                lines.append(f"FAILED   {case.suite} / {case.name}\n         {message}")
            case LeftOut(reason) if verbose:
                lines.append(f"left out {case.suite} / {case.name}: {reason}")
            case Passed() if verbose:
                lines.append(f"passed   {case.suite} / {case.name}")
            case _:
                pass
    return lines


def _notes(suite: Suite, adapter: Adapter | None) -> list[str]:
    names = {case.name for case in suite.cases}
    stale = [] if adapter is None else [name for name in adapter.left_out if name not in names]
    return [f"note     {suite.name}: left-out case {name!r} is not in this folder" for name in stale]


if __name__ == "__main__":
    sys.exit(main())
