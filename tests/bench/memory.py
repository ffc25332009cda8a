"""What each service remembers of jobs that are over: `python -m tests.bench.memory [JOBS]`.

Bytes per finished job, and how large a snapshot is and how long it takes to load. With `--long FILE` it plays
a cell that works for weeks (`long_run`), keeps `--retained` finished jobs, and appends to FILE a line of JSON
for every `--every` jobs: `tests.bench.memory_plot` makes a picture of them.
"""

import argparse
import gc
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sluice.core.budgets import consumption
from sluice.readmodel import snapshot
from tests.support.deep_size import deep_size

from .long_run import JOBS_PER_DAY, PER_TICK, LongRun

JOBS = 20_000
WRITERS = {
    "slices": "slice-aggregator",
    "variants": "variant-controller",
    "scheduler": "scheduler",
    "checks": "admission-check",
}
NEVER = 10**9


def run(jobs: int = JOBS) -> dict[str, Any]:
    """Play *jobs* jobs, keep all that have finished; return what half of them have added."""
    cell = LongRun(NEVER)
    cell.play(max(jobs // 2 // PER_TICK, 1) * PER_TICK)
    before, finished = states(cell), finished_jobs(cell)
    cell.play(jobs)
    after, added = states(cell), finished_jobs(cell) - finished
    return {
        "bench": "memory",
        "jobs": cell.jobs,
        "finished": finished_jobs(cell),
        "log_bytes_per_job": round(cell.log_bytes / cell.jobs),
        "bytes_per_finished_job": {name: round((after[name] - before[name]) / added) for name in after},
        "snapshots": snapshots(cell),
    }


def key(figures: dict[str, Any]) -> str:
    """Return what counts of them."""
    each = figures["bytes_per_finished_job"]
    return ", ".join(f"{name} {size} B" for name, size in each.items()) + " per finished job"


def finished_jobs(cell: LongRun) -> int:
    return len(cell.sides["slices"].state.finished)


def states(cell: LongRun) -> dict[str, int]:
    """Return the size of each service's state."""
    found = {name: deep_size(cell.sides[writer].state) for writer, name in WRITERS.items()}
    return {**found, "check-budget": deep_size(cell.consumption), "api": deep_size(cell.world)}


def snapshots(cell: LongRun) -> dict[str, dict[str, float]]:
    """Return how large snapshots are, as they are and as they are stored, and how long they take to load."""
    found: dict[str, dict[str, float]] = {}
    for writer, name in WRITERS.items():
        side = cell.sides[writer]
        data = side.decider.dump(side.state)
        found[name] = _loaded([data], lambda data=data, side=side: side.decider.load(data))
    data = consumption.dump(cell.consumption)
    found["check-budget"] = _loaded([data], lambda: consumption.load(data))
    parts = snapshot.dump(cell.world)
    found["api"] = _loaded(parts, lambda: snapshot.load(parts, cell.world.seq, cell.world.at))
    return found


def _loaded(parts: Sequence[bytes], load: Callable[[], object]) -> dict[str, float]:
    started = time.process_time()
    kept = load()
    took = time.process_time() - started
    del kept
    return {
        "mb": round(sum(map(len, parts)) / 1e6, 3),
        "stored_mb": round(sum(len(zlib.compress(part, 1)) for part in parts) / 1e6, 3),
        "load_s": round(took, 3),
    }


def long(jobs: int, retained: int, every: int, out: Path) -> None:
    """Play on, and write the sizes down, until *jobs* have been submitted."""
    cell, started = LongRun(retained), time.process_time()
    while cell.jobs < jobs:
        cell.play(cell.jobs + every)
        gc.collect()
        line = {
            "jobs": cell.jobs,
            "days": round(cell.jobs / JOBS_PER_DAY, 4),
            "finished_kept": finished_jobs(cell),
            "live": len(cell.sides["slices"].state.jobs),
            "log_mb": round(cell.log_bytes / 1e6),
            "messages": cell.messages,
            "bytes": states(cell),
            "snapshots": snapshots(cell),
            "rss_mb": round(_resident() / 1e6),
            "cpu_s": round(time.process_time() - started),
        }
        with out.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
        print(json.dumps({name: line[name] for name in ("jobs", "bytes", "rss_mb", "cpu_s")}), flush=True)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory", description=(__doc__ or "")[:80])
    parser.add_argument("jobs", type=int, nargs="?", default=JOBS)
    parser.add_argument("--long", type=Path, metavar="FILE")
    parser.add_argument("--retained", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=20_000)
    asked = parser.parse_args(arguments)
    if asked.long is None:
        print(json.dumps(run(asked.jobs)))
    else:
        long(asked.jobs, asked.retained, asked.every, asked.long)


if __name__ == "__main__":
    main(sys.argv[1:])
