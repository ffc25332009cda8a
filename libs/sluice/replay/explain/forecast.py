"""Forecast of a change of the cell: decided with it and without it, on copies of the state."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sluice.core.scheduler.state import SchedulerState
from sluice.events.base import Event
from sluice.events.scheduler import Evicted, Preempted, QuotaReserved
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, scheduler_at

from .sandbox import Sandbox
from .stopping import gone
from .whole_job import updated
from .why import find

__all__ = ["Change", "deleted", "edited", "forecast"]

Change = Callable[[SchedulerState], Sequence[Event]]
"""What the scheduler hears of a change, given its state."""


def edited(job: str, **changes: object) -> Change:
    """Return the change of what a job's workloads are: `active`, `priority` ..."""
    return lambda state: updated(state, find(state, job), **changes)


def deleted(job: str) -> Change:
    """Return the change that a job is deleted, and has stopped."""
    return lambda state: (gone(find(state, job)),)


class Effect(NamedTuple):
    """One difference that a change makes. `what`: admit, evict, no longer admit, no longer evict."""

    what: str
    workload: str
    job: str
    queue: str
    why: str


def forecast(
    source: Source,
    seq: int,
    change: Change,
    progress: Progress | None = None,
) -> list[Effect]:
    """Return what the scheduler would decide only with *change* at *seq*, or only without it.

    Who is evicted stops at once; no time passes, and nobody answers admission checks.

    Raises:
        UnknownWorkloadError: the change is about a workload that is not there.
    """
    fold = scheduler_at(source, seq, progress)
    sandbox = Sandbox(fold.state, seq, fold.at)
    events = change(fold.state)
    anyway, then = (_effects(fold.state, decided) for decided in (sandbox.follow(()), sandbox.follow(events)))
    return [
        *(effect for key, effect in then.items() if key not in anyway),
        *(e._replace(what=f"no longer {e.what}") for key, e in anyway.items() if key not in then),
    ]


def _effects(state: SchedulerState, decided: Iterable[Event]) -> dict[tuple[str, str], Effect]:
    """Return what was decided, each once: evictions first, as they make room."""
    admitted: dict[tuple[str, str], Effect] = {}
    evicted: dict[tuple[str, str], Effect] = {}
    by: dict[str, str] = {}
    for event in decided:
        match event:
            case Preempted(workload=key, preemptor=preemptor, rule=rule):
                by[key] = f" by {preemptor} ({rule})"
            case Evicted(workload=key, reason=reason):
                why = f"{reason}{by.get(key, '')}"
                evicted["evict", key] = Effect("evict", key, *_whose(state, key), why)
            case QuotaReserved(workload=key, cluster_queue=queue):
                admitted["admit", key] = Effect("admit", key, _whose(state, key)[0], queue, "")
            case _:
                pass
    return evicted | admitted


def _whose(state: SchedulerState, key: str) -> tuple[str, str]:
    """Return job and cluster queue of a workload, as far as it has any."""
    workload = state.world.workloads.get(key)  # type: ignore[call-overload]
    if workload is None:
        return "", ""
    record = workload.record
    local = state.world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    return "" if record.job is None else record.job.key, "" if local is None else local.cluster_queue
