"""Fold of others' events into the slice-aggregator: users, agents, configuration, other services."""

import msgspec

from sluice.api import kueue
from sluice.api.errors import UNREADABLE
from sluice.api.mapped import JobKind
from sluice.core.workload.additions import Additions, answered, asked
from sluice.core.workload.charges import counts, grows, shrunk
from sluice.core.workload.deactivation import is_overtaken
from sluice.events.base import Event, Micros
from sluice.events.checks import ChecksRejected, ChecksRequested, CheckStateChanged
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.envelope import Message
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    QuotaReleased,
    QuotaReserved,
    WorkloadDeactivated,
    WorkloadSliceReplaced,
    WorkloadSliceWithdrawn,
)
from sluice.events.variants import ParentAdmitted, ParentDeactivated, ParentEvicted, ParentReleased

from .dispatch import cut, placement
from .fold_effects import Handler, prune, prune_all, succeed
from .intake import inbound as read_job_message
from .intake import presence as read_presence
from .limits import fits_limits, limit_range_applied, limits_deleted, look_at_limits, runtime_class_applied
from .resize import granted, low_since, was_refused
from .state import Job, Phase, State, Todo


def _message(state: State, event: Message, seq: int, at: Micros) -> None:
    if event.subject.startswith("presence."):
        state.presence.append(read_presence(event, seq))
        return
    key, inbound = read_job_message(event, seq, at)
    state.receive(key, inbound, first=key in state.jobs)


def _object_applied(state: State, event: ObjectApplied, seq: int, _at: Micros) -> None:
    try:
        match event.kind:
            case "WorkloadPriorityClass":
                found = msgspec.json.decode(event.object, type=kueue.WorkloadPriorityClass)
                state.priorities[event.name] = found.value
            case "ResourceFlavor":
                flavor = msgspec.json.decode(event.object, type=kueue.ResourceFlavor)
                state.flavors[event.name] = flavor.spec
            case "LimitRange":
                limit_range_applied(state, event, seq)
            case "RuntimeClass":
                runtime_class_applied(state, event, seq)
            case "LocalQueue":
                queue = msgspec.json.decode(event.object, type=kueue.LocalQueue)
                state.cluster_queues[f"{event.namespace}/{event.name}"] = queue.spec.cluster_queue
            case "ClusterQueue":
                spec = msgspec.json.decode(event.object, type=kueue.ClusterQueue).spec
                state.concurrent.pop(event.name, None)
                if spec.concurrent_admission_policy is not None:
                    state.concurrent[event.name] = None
            case "JobKind":
                state.job_kinds[event.name] = msgspec.json.decode(event.object, type=JobKind).spec
                state.describe_kinds()
            case "Configuration":
                state.config = msgspec.json.decode(event.object, type=kueue.Configuration).spec
                prune_all(state, seq)
    except UNREADABLE:
        # The configuration's writer has validated it; whatever else stands there means nothing here.
        return


def _object_deleted(state: State, event: ObjectDeleted, seq: int, _at: Micros) -> None:
    match event.kind:
        case "LimitRange" | "RuntimeClass":
            limits_deleted(state, event, seq)
        case "WorkloadPriorityClass":
            state.priorities.pop(event.name, None)
        case "ResourceFlavor":
            state.flavors.pop(event.name, None)
        case "LocalQueue":
            state.cluster_queues.pop(f"{event.namespace}/{event.name}", None)
        case "ClusterQueue":
            state.concurrent.pop(event.name, None)
        case "JobKind":
            state.job_kinds.pop(event.name, None)
            state.describe_kinds()
        case "Configuration":
            state.config = kueue.ConfigurationSpec()


def _quota_reserved(state: State, event: QuotaReserved | ParentAdmitted, seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    if job.pending is not None and job.pending.key == event.workload:
        job.pending_assignment, job.pending_observed = event.pod_sets, event.observed_generation
        look_at_limits(state, job, seq)
        return
    # Of variants, each may have its quota from before an edit, also one that the job moves to much later.
    made_before = job.edited or isinstance(event, ParentAdmitted)
    # Else the scheduler had not heard yet of what limit ranges make of it.
    alike = fits_limits(state, job) and not (made_before and not _matches(state, job, event))
    job.edited = False
    job.reserved = True
    job.evicting = False
    job.through_variant = isinstance(event, ParentAdmitted)
    job.assignment = event.pod_sets
    look_at_limits(state, job, seq)
    if not alike:
        state.set_todo(job, Todo.RECREATE, seq)


def _matches(state: State, job: Job, event: QuotaReserved | ParentAdmitted) -> bool:
    """Tell whether the reservation is for the workload as it is now, not as it was before an edit."""
    record = job.record
    expected = state.cluster_queues.get(f"{record.namespace}/{record.queue_name}", event.cluster_queue)
    if event.cluster_queue != expected:
        return False
    low = low_since(job, event.pod_sets, event.observed_generation)
    if any(low[assigned.name] < assigned.count for assigned in event.pod_sets):
        return False
    wanted = {pods.name: pods for pods in record.pod_sets}
    if wanted.keys() != {assigned.name for assigned in event.pod_sets}:
        return False
    for assigned in event.pod_sets:
        pods = wanted[assigned.name]
        least = pods.count if pods.min_count is None else pods.min_count
        if not least <= assigned.count <= pods.count:
            return False
        due = {name: value * assigned.count for name, value in pods.requests.items()}
        if any(assigned.usage.get(name, 0) != value for name, value in due.items()):
            return False
        if any(name not in due and name != "pods" for name, value in assigned.usage.items() if value):
            return False
    return True


def _admitted(state: State, event: Admitted | ParentAdmitted, seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    if job.pending is not None and job.pending.key == event.workload:
        job.pending_admitted = True
        return
    job.admitted = True
    if job.phase is Phase.PENDING and job.todo is not Todo.RECREATE:
        state.set_todo(job, Todo.RESUME, seq)


def _parent_admitted(state: State, event: ParentAdmitted, seq: int, at: Micros) -> None:
    """What a job's workload gets through one of its variants is as good as its own (CA7)."""
    _quota_reserved(state, event, seq, at)
    job = state.by_workload.get(event.workload)
    if job is not None:
        job.updates = Additions(by_check=dict(event.updates)) if event.updates else None
    _admitted(state, event, seq, at)


def _slice_replaced(state: State, event: WorkloadSliceReplaced, seq: int, at: Micros) -> None:
    """The new slice speaks for the job from here on; its attempt goes on, with other counts (WS3, WS4)."""
    job = state.by_workload.get(event.by)
    if job is None or job.pending is None or job.pending.key != event.by or job.record.key != event.workload:
        return
    had = counts(granted(job, job.pending_assignment, job.pending.pod_sets, job.pending_observed))
    succeed(state, job, at)
    prune(state, job, seq)
    job.reserved = True
    if job.phase is not Phase.PENDING:
        before = counts(job.placement)
        job.placement = cut(placement(state, job), had)
        if grows(before, counts(job.placement)):
            job.pods_ready = False
        if job.phase is Phase.RUNNING:
            state.set_todo(job, Todo.RESIZE, seq)
    elif job.admitted:
        # The attempt that it was asked for in is over: what was done in that is to be done again.
        smaller = bool(job.reclaimable) or grows(had, counts(job.record.pod_sets))
        state.set_todo(job, Todo.RECREATE if smaller else Todo.RESUME, seq)
    look_at_limits(state, job, seq)


def _slice_withdrawn(state: State, event: WorkloadSliceWithdrawn, seq: int, _at: Micros) -> None:
    """The pending slice is not needed any more, or was not when the scheduler looked (WS3)."""
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    if job.pending is not None and job.pending.key == event.workload:
        state.set_pending_todo(job, Todo.WITHDRAW, seq)
    elif job.record.key == event.workload:
        # Meanwhile the one that ran lost its quota, and this one speaks for the job.
        state.set_todo(job, Todo.RECREATE, seq)


def _evicted(state: State, event: Evicted | ParentEvicted, seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None or job.record.key != event.workload:
        return
    job.evicting = job.reserved
    look_at_limits(state, job, seq)
    if not job.admitted:
        # Without an admission nothing was started, and the quota is released without being asked for.
        return
    if job.phase is Phase.RUNNING:
        job.reason, job.message = event.reason, event.message
        state.set_todo(job, Todo.SUSPEND, seq)
    elif job.phase is Phase.PENDING and job.todo is not Todo.RECREATE:
        job.reason, job.message = event.reason, event.message
        state.set_todo(job, Todo.CONFIRM_STOP, seq)


def _quota_released(state: State, event: QuotaReleased | ParentReleased, seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    if job.record.key != event.workload:
        job.pending_assignment, job.pending_updates, job.pending_admitted = (), None, False
        look_at_limits(state, job, seq)
        return
    job.reserved = job.admitted = job.evicting = job.through_variant = False
    job.assignment = ()
    job.updates = None
    if job.phase is Phase.RUNNING:
        # Not how the handshake goes; but what has no quota must not run.
        job.reason, job.message = "QuotaReleased", "The quota was released"
        state.set_todo(job, Todo.SUSPEND, seq)
    elif job.todo in (Todo.RESUME, Todo.CONFIRM_STOP):
        state.clear_todo(job)
    elif job.todo is Todo.RECREATE and not job.reclaimable:
        # The quota was for the workload as it was. It is gone already, and the next may be, too.
        state.clear_todo(job)
        job.edited = True
    if was_refused(job):
        # The job goes on with the size that it had.
        state.set_pending_todo(job, Todo.WITHDRAW, seq)
    elif job.phase is Phase.PENDING and job.pending is not None and job.pending_todo is not Todo.WITHDRAW:
        state.set_todo(job, Todo.FORGET_SLICE, seq)
    look_at_limits(state, job, seq)


def _deactivated(state: State, event: WorkloadDeactivated | ParentDeactivated, seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    speaks = job.record.key == event.workload
    if is_overtaken(event, job.switched_by if speaks else job.pending_switched_by):
        return
    if speaks:
        job.record = msgspec.structs.replace(job.record, active=False)
    elif job.pending is not None:
        job.pending = msgspec.structs.replace(job.pending, active=False)
        asked = counts(job.pending_assignment)
        if asked and asked != counts(job.pending.pod_sets) and job.pending_todo is Todo.NONE:
            state.set_pending_todo(job, Todo.REACTIVATE, seq)


def _checks_rejected(state: State, event: ChecksRejected, _seq: int, _at: Micros) -> None:
    """The size that was asked for by then is refused, also when it was less than what was reserved first."""
    job = state.by_workload.get(event.workload)
    if job is None or job.pending is None or job.pending.key != event.workload:
        return
    job.pending_assignment = shrunk(job.pending_assignment, counts(job.pending.pod_sets))


def _checks_requested(state: State, event: ChecksRequested, _seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    if job.record.key != event.workload:
        if not job.pending_admitted:
            job.pending_updates = asked(job.pending_updates, event)
    elif not job.admitted:
        job.updates = asked(job.updates, event)


def _check_state(state: State, event: CheckStateChanged, _seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    if job.record.key != event.workload:
        if not job.pending_admitted:
            answered(job.pending_updates, event)
    elif not job.admitted:
        answered(job.updates, event)


INPUT_FOLDS: dict[type[Event], Handler] = {
    Message: _message,
    ObjectApplied: _object_applied,
    ObjectDeleted: _object_deleted,
    QuotaReserved: _quota_reserved,
    Admitted: _admitted,
    Evicted: _evicted,
    QuotaReleased: _quota_released,
    WorkloadDeactivated: _deactivated,
    WorkloadSliceReplaced: _slice_replaced,
    WorkloadSliceWithdrawn: _slice_withdrawn,
    ParentAdmitted: _parent_admitted,
    ParentDeactivated: _deactivated,
    ParentEvicted: _evicted,
    ParentReleased: _quota_released,
    ChecksRejected: _checks_rejected,
    ChecksRequested: _checks_requested,
    CheckStateChanged: _check_state,
}
