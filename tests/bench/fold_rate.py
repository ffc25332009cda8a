"""How fast services fold a recorded log: `python -m tests.bench.fold_rate [EVENTS]`.

Read by the bulk reader from a real server, commits decoded, folded as by a stand-by; each in a process of
its own with the services' settings of the garbage collector.
"""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.events.codec import decode_commit
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.log.nats.blocking import BulkReader
from sluice.log.runtime import gc_tuning
from sluice.protocol.subjects import COMMITS, OUTSIDE
from sluice.readmodel.world import World
from tests.support.system import ROOT

from .recorded_log import EVENTS, recorded

DECIDERS: dict[str, Callable[[], Decider[Any]]] = {
    "scheduler": Scheduler,
    "slice_aggregator": SliceAggregator,
}
EVERYTHING = (*OUTSIDE, *COMMITS)

Take = Callable[[list[Entry]], object]
"""Folds a batch."""


def folding(service: str, total: int) -> tuple[Sequence[str], Take, Callable[[], int]]:
    """Return what *service* reads, how it folds that, and what tells how many events that were."""
    if service not in DECIDERS:
        return EVERYTHING, World().fold if service == "api" else decode, lambda: total
    decider = DECIDERS[service]()
    fold = Fold(decider)

    def stand_by(entries: list[Entry]) -> None:
        """Fold; inputs wait for the own step that tells when they were folded."""
        for _ in fold.take_in(entries):
            pass

    return [*sorted(decider.reads), decider.writer], stand_by, lambda: fold.folded


def decode(entries: list[Entry]) -> None:
    """Do no more than all the others do as well."""
    for entry in entries:
        if entry.suffix in COMMITS:
            decode_commit(entry.payload)


def measure(service: str, url: str, total: int) -> dict[str, Any]:
    """Fold the log at *url*, of *total* events, as *service* does."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    filters, take, folded = folding(service, total)
    gc_tuning.tune()
    messages = 0
    wall, cpu = time.perf_counter(), time.process_time()
    with gc_tuning.put_off():
        for batch in BulkReader(url, "main", filters=filters):
            messages += len(batch)
            take(batch)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    events = folded()
    return {
        "events": events,
        "messages": messages,
        "events_per_s": round(events / wall),
        "cpu_us_per_event": round(cpu / events * 1e6, 2),
        "seconds": round(wall, 2),
    }


def run(events: int = EVENTS) -> dict[str, object]:
    log = recorded(events)
    services = {}
    for name in ("read_and_decode_only", *DECIDERS, "api"):
        command = [sys.executable, "-m", "tests.bench.fold_rate", name, log.system.url, str(log.total)]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
        services[name] = json.loads(done.stdout)
    return {
        "bench": "fold-rate",
        "events": log.total,
        "messages": log.messages,
        "log_mb": round(log.log_mb, 1),
        "services": services,
    }


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
    else:
        print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)))
