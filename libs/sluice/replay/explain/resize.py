"""Resize of an elastic job that runs, for `simulate`: its manifest with another size."""

from collections.abc import Mapping

import msgspec

from sluice.api.features import ELASTIC_JOBS_VIA_WORKLOAD_SLICES, enabled
from sluice.api.labels import ELASTIC_JOB, WORKLOAD_SLICE_NAME
from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.completions import made
from sluice.core.slices.resize import same_but_for_size
from sluice.core.workload.admission_checks import checks_for
from sluice.core.workload.charges import counts, grows
from sluice.core.world.model import World
from sluice.core.world.workload import Workload
from sluice.events.base import Event
from sluice.events.slices import WorkloadDeleted, WorkloadRecord


def workload_of(state: SchedulerState, job: str) -> Workload | None:
    """Return the job's workload, one with quota before one that waits; None if it has none, or is over."""
    found = [
        w
        for w in state.world.workloads.values()
        if w.record.job is not None and w.record.job.key == job and not w.finished and w.record.parent is None
    ]
    return min(found, key=lambda w: (w.assignment is None, w.uid), default=None)


def is_resize(state: SchedulerState, running: Workload, record: WorkloadRecord) -> bool:
    """Would *record* change the size of the job while it runs (WS3)?"""
    elastic = all(r.annotations.get(ELASTIC_JOB) == "true" for r in (running.record, record))
    return (
        elastic
        and enabled(state.world.config.feature_gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES)
        and running.assignment is not None
        and running.evicted_at is None
        and same_but_for_size(running.record.pod_sets, record.pod_sets)
    )


def growth_words(world: World, old: Workload, new: Workload) -> str:
    """Say from what to what a waiting slice is to grow, and what becomes of the other one meanwhile."""
    had = counts(old.record.pod_sets)
    grown = [
        f"{had.get(pods.name, 0)} to {pods.count} x {pods.name}"
        for pods in new.record.pod_sets
        if pods.count != had.get(pods.name, 0)
    ]
    return f"It is the growth of its job from {', '.join(grown)}. {running_words(world, old)}"


def running_words(world: World, old: Workload) -> str:
    """Say what becomes of the slice that has quota while another one waits to take its place.

    It has pods only once it is admitted.
    """
    if old.evicted_at is not None or old.stopped:
        return f"Its slice {old.key} is being stopped."
    if old.admitted_at is not None:
        return f"Its slice {old.key} runs on meanwhile."
    return f"Its slice {old.key} keeps what it has reserved, and has no pods yet: {_starts(world, old)}."


def _starts(world: World, old: Workload) -> str:
    """Return what starts the pods of a slice that has quota and is not admitted."""
    queue = world.cluster_queues.get(old.cluster_queue)
    checks = [] if queue is None else checks_for(queue.spec, old.assignment or ())
    if old.preemptions:
        return f"it waits for its preemptions (`sluice why {old.key}`)"
    if not checks:
        return "it is admitted next"
    return f"they start when its checks say Ready: {', '.join(checks)} (`sluice why {old.key}`)"


def taking_place(old: Workload | None, key: str) -> str:
    """Return what is to be said of a slice whose place is taken."""
    if old is None or old.admitted_at is not None:
        return f"It would take the place of its slice {key}, whose pods run on."
    return f"It would take the place of its slice {key}, which has no pods yet."


def until_then(victim: Workload | None) -> str:
    """Return what a victim does that is to be preempted later."""
    return "runs on" if victim is None or victim.admitted_at is not None else "keeps its reservation"


def growth(
    state: SchedulerState,
    running: Workload,
    record: WorkloadRecord,
    cause: int,
    remaining: Mapping[str, int],
) -> tuple[WorkloadRecord, tuple[Event, ...]] | None:
    """Return the slice that would ask for the size of *record*, with its events; None if it needs no quota.

    A growth that waits already goes for it: there are never more than two slices. *remaining*: how many pods
    of each set can still run, where that is known.
    """
    if not grows(counts(running.record.pod_sets), counts(record.pod_sets)):
        return None
    of_lineage = {
        **record.annotations,
        WORKLOAD_SLICE_NAME: running.record.annotations.get(WORKLOAD_SLICE_NAME, running.record.name),
    }
    grown = msgspec.structs.replace(
        record, replaces=running.key, job=running.record.job, annotations=of_lineage
    )
    before = tuple(
        WorkloadDeleted(cause=cause, workload=w.key)
        for w in state.world.workloads.values()
        if w.record.replaces == running.key and not w.finished
    )
    return grown, (*before, *made(cause, grown, remaining))
