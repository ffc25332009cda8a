"""What folding a `QuotaReleased` runs through: `python -m tests.bench.quota_given_back`.

A workload of a queue with a preemptor, with others that wait, is evicted, stops, and gives its quota back.
Prints calls, functions, modules and rooms of the scheduler's fold of that, then each call in its order.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import sluice.core
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.fold import fold
from sluice.core.scheduler.state import SchedulerState
from sluice.events.base import Event, Micros
from sluice.events.scheduler import QuotaReleased
from tests.support.family_world import FamilyWorld, cell, cluster_queue
from tests.support.objects import priority_class

Call = tuple[str, str]
"""A module below `core`, and a function of it."""


class _Traced(Scheduler):
    def __init__(self) -> None:
        self.calls: list[Call] = []

    def apply(self, state: SchedulerState, event: Event, seq: int, at: Micros) -> None:
        if self.calls or not isinstance(event, QuotaReleased):
            fold(state, event, seq, at)
            return
        with _recorded(self.calls):
            fold(state, event, seq, at)


@contextmanager
def _recorded(into: list[Call]) -> Iterator[None]:
    root = f"{sluice.core.__path__[0]}/"

    def heard(frame: FrameType, kind: str, _: object) -> None:
        path = frame.f_code.co_filename
        if kind == "call" and path.startswith(root):
            into.append((path.removeprefix(root), frame.f_code.co_qualname))

    sys.setprofile(heard)
    try:
        yield
    finally:
        sys.setprofile(None)


def calls() -> list[Call]:
    """Return the calls of the fold, in their order."""
    queue = cluster_queue(
        {"default": 1}, {}, preemption={"withinClusterQueue": "LowerPriority"}, cohortName="all"
    )
    world: FamilyWorld = cell(queue, priority_class("low", 1), priority_class("high", 100))
    traced = world.services["scheduler"].decider = _Traced()
    for name in ("a", "x", "y", "z"):
        world.submit(name, priority_class="low")
        world.settle_all()
    world.submit("p", priority_class="high")
    world.settle_all()
    return traced.calls


def main() -> None:
    found = calls()
    modules = {module for module, _ in found}
    rooms = {module.rpartition("/")[0] for module in modules}
    print(f"{len(found)} calls, {len(set(found))} functions, {len(modules)} modules, {len(rooms)} rooms")
    for module, function in found:
        print(f"  {module:36} {function}")


if __name__ == "__main__":
    main()
