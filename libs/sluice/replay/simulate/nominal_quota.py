"""Nominal quota as it was from time to time: what was used above it was borrowed."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sluice.core.quota.tree import FlavorResource
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.events.base import Micros
from sluice.events.config import ObjectApplied, ObjectDeleted

from .inputs import Input


@dataclass
class NominalQuota:
    """Of queues that are deleted it stays as it was: what still runs in them was within it."""

    _steps: dict[str, dict[FlavorResource, list[tuple[Micros, int]]]] = field(default_factory=dict)
    """Queue -> flavor and resource -> since when it is how much, in order."""

    def note(self, queue: str, at: Micros, quotas: Mapping[FlavorResource, int]) -> None:
        """From *at* on the queue has these quotas."""
        of = self._steps.setdefault(queue, {})
        for fr in dict.fromkeys((*of, *quotas)):
            steps, amount = of.setdefault(fr, []), quotas.get(fr, 0)
            if not steps or steps[-1][1] != amount:
                steps.append((at, amount))

    def totals(self) -> dict[str, int]:
        """Return queue -> all quota that it has in the end, of whatever resource."""
        return {queue: sum(steps[-1][1] for steps in of.values()) for queue, of in self._steps.items()}

    def above(self, queue: str, fr: FlavorResource, level: int, begin: Micros, end: Micros) -> int:
        """Return what *level* from *begin* to *end* was above the quota: amount by microseconds."""
        steps = self._steps.get(queue, {}).get(fr, ())
        index = bisect_right(steps, begin, key=lambda step: step[0])
        quota = steps[index - 1][1] if index else 0
        total = 0
        for at, amount in (*steps[index:], (end, 0)):
            until = min(at, end)
            total += max(0, level - quota) * max(0, until - begin)
            if at >= end:
                break
            begin, quota = until, amount
        return total


def as_configured(inputs: Iterable[Input]) -> tuple[SchedulerState, NominalQuota]:
    """Return what all configuration comes to, and the nominal quota on the way to it."""
    scheduler = Scheduler()
    state = scheduler.initial()
    nominal = NominalQuota()
    for item in inputs:
        for event in item.events:
            scheduler.apply(state, event, item.seq, item.at)
            if not isinstance(event, ObjectApplied | ObjectDeleted) or event.kind != "ClusterQueue":
                continue
            queue = state.world.cluster_queues.get(event.name)
            if queue is not None:
                quotas = {fr: quota.nominal for fr, quota in queue.node.quotas.items()}
                nominal.note(queue.node.name, item.at, quotas)
    return state, nominal
