"""Reads what other services than the scheduler know of a workload, where they have a say in it."""

from sluice.core.scheduler.state import SchedulerState
from sluice.log.fold import Fold
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, checks_at, variants_at
from sluice.replay.views.cells import dispatch_at, is_manager

from .executors import Executors
from .why import Others, find


def others_at(
    source: Source, seq: int, fold: Fold[SchedulerState], name: str, progress: Progress | None = None
) -> Others:
    """Return it as of *seq*, of the workload or job *name*.

    Raises:
        UnknownWorkloadError: there is none.
    """
    world, found = fold.state.world, find(fold.state, name)
    family = world.families.get(found.record.parent or found.key)
    members = [found, *(family or {}).values()]
    checked = any(w.assignment is not None and w.admitted_at is None for w in members)
    return Others(
        variants_at(source, seq, progress=progress).state if family else None,
        checks_at(source, seq, progress=progress).state if checked else None,
        Executors(source, seq),
        dispatch_at(source, seq, progress) if is_manager(source, seq) else None,
    )
