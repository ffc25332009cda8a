"""Deactivations that cross, on their way, with what people have said of the same workload."""

from sluice.events.scheduler import WorkloadDeactivated
from sluice.events.variants import ParentDeactivated


def is_overtaken(event: WorkloadDeactivated | ParentDeactivated, switched_by: int) -> bool:
    """Has the workload been switched on or off since, by what the writer of *event* hears of next?

    *switched_by*: cause of the last change of `active` that the reader has heard of, 0 if there was none.
    Writer and reader then agree: the later word counts. Of old logs it is not known, and the event counts.
    """
    return event.observed_switch is not None and switched_by > event.observed_switch
