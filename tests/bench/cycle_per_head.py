"""What the scheduler pays per head that it evaluates, as the number of pending workloads grows.

One queue that holds one workload; so many wait for it, all different to the scheduler or all equal.
Again and again the running one finishes, so that one is admitted, and a new one comes, which does not
fit. `python -m tests.bench.cycle_per_head [PENDING ...]`
"""

import gc
import heapq
import itertools
import json
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from sluice.core.cycle import looks, nomination
from sluice.core.cycle.entry import Entry
from sluice.core.world.model import World
from sluice.events.slices import WorkloadCreated, WorkloadRecord
from sluice.log.runtime import gc_tuning

from .core_cycle import Simulation, configure, record
from .scenario import JobClass, Scenario

SIZES = (100, 1_000, 10_000, 100_000)
BATCHES, ROUNDS = 8, 100
_CLASS = JobClass("only", 1, 20, 50, 0, 0)
_SCENARIO = Scenario("one", 1, 1, (_CLASS,), 0.0, borrowing_cpu=0)


class Heads:
    """Counts the heads that cycles evaluate, while it is entered."""

    def __enter__(self) -> "Heads":
        self.count = 0
        self._nominate = nomination.nominate

        def counting(world: World, entry: Entry, *, may_defer: bool = True) -> bool:
            self.count += 1
            return self._nominate(world, entry, may_defer=may_defer)

        vars(looks)["nominate"] = counting
        return self

    def __exit__(self, *_: object) -> None:
        vars(looks)["nominate"] = self._nominate


def workload(number: int, *, distinct: bool) -> WorkloadRecord:
    """Return the workload with this number, which is its place in the queue."""
    item = record("cq-0-0", _CLASS, number, number, number)
    if not distinct:
        return item
    pod_set = msgspec.structs.replace(item.pod_sets[0], node_selector={"n": str(number)})
    return msgspec.structs.replace(item, pod_sets=(pod_set,))


def measure(pending: int, *, distinct: bool) -> dict[str, float]:
    """Return what a head costs while *pending* workloads wait: CPU, folding and encoding included."""
    simulation = Simulation()
    configure(simulation, _SCENARIO)
    numbers = itertools.count(1)

    def create() -> None:
        number = next(numbers)
        item = workload(number, distinct=distinct)
        simulation.runs[item.key] = 1000
        simulation.now = number
        simulation.fold([WorkloadCreated(cause=0, workload=item)])

    def finish() -> None:
        _, _, what, item = heapq.heappop(simulation.queue)
        event = simulation.event(what, item)
        assert event is not None
        simulation.fold([event])

    for _ in range(pending + 1):
        create()
    gc_tuning.tune()
    with Heads() as heads:
        simulation.cpu = dict.fromkeys(simulation.cpu, 0.0)
        simulation.settle()
        first_look = _cpu_us(simulation) / heads.count
    costs = []
    for _ in range(BATCHES):
        simulation.cpu = dict.fromkeys(simulation.cpu, 0.0)
        with Heads() as heads:
            for _ in range(ROUNDS):
                for happens in (finish, create):
                    happens()
                    simulation.settle()
        costs.append(_cpu_us(simulation) / heads.count)
    return {
        "pending": pending,
        "heads_per_cycle": round(heads.count / (2 * ROUNDS), 2),
        # Of several batches the best: whatever else the machine does makes the others dearer.
        "cpu_us_per_head": round(min(costs), 1),
        "cpu_us_per_head_at_first": round(first_look, 1),
    }


def _cpu_us(simulation: Simulation) -> float:
    return sum(simulation.cpu.values()) * 1e6


def run(sizes: Sequence[int] = SIZES) -> dict[str, object]:
    result: dict[str, Any] = {"bench": "cycle-per-head"}
    for kind, distinct in (("distinct", True), ("identical", False)):
        rows = [measure(pending, distinct=distinct) for pending in sizes]
        gc.collect()
        result[kind] = rows
        result[f"ratio_{kind}"] = round(rows[-1]["cpu_us_per_head"] / rows[0]["cpu_us_per_head"], 2)
    return result


if __name__ == "__main__":
    print(json.dumps(run([int(size) for size in sys.argv[1:]] or SIZES)))
