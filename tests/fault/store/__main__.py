"""`python -m tests.fault.store [--rounds N] [--seed N] [--only TEXT]`: faults of the store while jobs flow.

Three servers, two replicas of each service, five executors behind proxies. Before the end the table of
docs/faults.md; last line: `N faults, N jobs, N lost, N double, N divergent`; non-zero exit if anything is
wrong. Then the cell's directory stays, with the event log as `log.jsonl`.
"""

import argparse
import asyncio
import logging
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import structlog

from .cell import StoreSystem
from .full_disk import full_disk
from .run import LONG, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fault.store", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="times that each fault comes (default 1)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--replicas", type=int, default=2, help="of each service that decides (default 2)")
    parser.add_argument("--only", default="", help="only faults whose name has this in it")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    directory = Path(tempfile.mkdtemp(prefix="sluice-store-"))
    print(f"seed {options.seed}, in {directory}", flush=True)
    began = time.monotonic()
    # The servers and services are ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def tell(line: str) -> None:
        print(f"{time.monotonic() - began:5.1f} s {line}", flush=True)

    faults = [fault for fault in LONG if options.only in fault[0]]
    with StoreSystem(directory) as system:
        system.begin(options.replicas)
        report = asyncio.run(run(system, faults, seed=options.seed, rounds=options.rounds, tell=tell))
    if options.only in "full disk":
        for _ in range(options.rounds):
            full_disk(report, tell)
    print(*report.table(), sep="\n")
    for kind in ("lost", "double", "divergent", "wrong"):
        for line in getattr(report, kind)[:12]:
            print(f"{kind}: {line}")
    for line in report.apart:
        print(f"apart: {line} (begun before an older log was put back)")
    if report.any:
        print(f"kept: {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    print(report.last_line())
    return 1 if report.any else 0


if __name__ == "__main__":
    sys.exit(main())
