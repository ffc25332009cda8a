"""`python -m tests.fault [--kills N] [--seed N]`: kill everything at random while jobs run, then check.

`--checks` is another run: controllers of admission checks and their service are killed (`checks`).
Before the end a table of the faults: how often each came, how soon it had healed. Last line: `fault: N kills,
N jobs, N lost, N double, N divergent, N violations`; non-zero exit if anything is wrong.
Then the cell's directory stays, with the logs of all processes and the event log as `log.jsonl`.
"""

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import structlog

from tests.support.system import System

from .chaos import LEAST
from .checks import check_plan
from .run import ENV, Plan, run

SHOWN = 12
"""Lines of each kind of finding."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fault", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="SIGKILLs to reach (default 60)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="to repeat a run")
    parser.add_argument(
        "--least", type=int, default=LEAST, help=f"times that each fault comes at least (default {LEAST})"
    )
    parser.add_argument("--no-executors", action="store_true", help="no agents, no bridges")
    parser.add_argument("--keep", action="store_true", help="keep the cell's directory in any case")
    parser.add_argument("--checks", action="store_true", help="damage admission checks")
    options = parser.parse_args()
    if options.checks:
        plan = check_plan(options.kills, options.seed, options.least)
    else:
        plan = Plan(
            kills=options.kills, seed=options.seed, least=options.least, executors=not options.no_executors
        )
    directory = Path(tempfile.mkdtemp(prefix="sluice-fault-"))
    print(f"seed {plan.seed}, in {directory}", flush=True)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    began = time.monotonic()
    keep = True

    def tell(line: str) -> None:
        print(f"{time.monotonic() - began:5.1f} s {line}", flush=True)

    try:
        with System(directory, env=ENV) as system:
            report = asyncio.run(run(system, plan, tell))
        keep = options.keep or report.findings.any()
    finally:
        if keep:
            print(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    for kind, lines in vars(report.findings).items():
        if lines:
            more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
            print(f"{kind}:", *lines[:SHOWN], *more, sep="\n  ")
    print(*report.lines, f"time: {time.monotonic() - began:.0f} s", sep="\n")
    print(report.last_line())
    return 1 if report.findings.any() else 0


if __name__ == "__main__":
    sys.exit(main())
