"""What must hold when a job is stopped to move to a better variant."""

from collections.abc import Iterator
from typing import ClassVar

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.reasons import FLAVOR_MIGRATION
from sluice.core.world.workload import Workload
from sluice.events.scheduler import Evicted
from sluice.replay.lint.observer import Observer, hears


class MovesObserver(Observer):
    """A job that is stopped to move has something else to move to: another flavor, or more pods (CA10)."""

    name: ClassVar[str] = "moves-on"
    decider = Scheduler

    @hears
    def _evicted(self, state: SchedulerState, event: Evicted) -> Iterator[str]:
        workload = state.world.workloads.get(event.workload)
        if workload is None or event.reason != FLAVOR_MIGRATION:
            return
        before = _pods(workload)
        parent = workload.record.parent
        better = [
            other
            for other in (state.world.families.get(parent, {}).values() if parent is not None else ())
            if other.assignment is not None and other.record.preference < workload.record.preference
        ]
        if not any(_has_more(_pods(other), before) for other in better):
            yield f"{workload.key} is stopped to move to where it runs: {sorted(before.items())}"


def _pods(workload: Workload) -> dict[tuple[str, str, str], int]:
    """Return pod set, resource and flavor -> pods; those that ask for nothing have no flavor, and count."""
    return {
        (pods.name, resource, flavor): pods.count
        for pods in workload.assignment or ()
        for resource, flavor in (("", ""), *pods.flavors.items())
    }


def _has_more(after: dict[tuple[str, str, str], int], before: dict[tuple[str, str, str], int]) -> bool:
    return any(where not in before or count > before[where] for where, count in after.items())


__all__ = ["MovesObserver"]
