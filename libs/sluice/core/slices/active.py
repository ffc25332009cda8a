"""Jobs that people switch off and on again: kueuectl's stop and resume of workloads."""

from sluice.core.workload.inputs import short
from sluice.events.base import Event, JobKey
from sluice.events.job import JobActivated, JobDeactivated
from sluice.events.slices import WorkloadUpdated

from .intake import Inbound
from .resize import taken_back
from .responses import DUPLICATE, STALE, STOPS, WITHDRAWS, Events, held, ignored, unknown
from .state import Phase, State, Stop


def switched(state: State, key: JobKey, inbound: Inbound, data: JobActivated | JobDeactivated) -> Events:
    """Set `active` of the job's workload, and of the slice that is to replace it; the rest follows from it.

    What was deactivated is evicted, and queued again only when it is active. What makes way for another
    workload, or for changes that came before, is not switched any more: the message waits for what comes.
    """
    job = state.jobs.get(key)
    if job is None:
        return ignored(inbound, STALE) if key in state.finished else unknown(inbound, key)
    waits = any(seq < inbound.seq for seq in state.inbox.get(key, {}))
    if (job.phase is Phase.STOPPING and job.stop is not Stop.EVICTED) or (job.stops and waits):
        return held(state, key, inbound, STOPS)
    if waits and taken_back(state, job):
        return held(state, key, inbound, WITHDRAWS)
    active = isinstance(data, JobActivated)
    events: list[Event] = [
        WorkloadUpdated(cause=inbound.seq, workload=record.key, active=active, message=short(data.message))
        for record in (job.record, job.pending)
        if record is not None and record.active != active
    ]
    return events or ignored(inbound, DUPLICATE)
