"""How each event changes the slice-aggregator's state. No choices are left here.

`HANDLERS` says which events are folded; all others are of no concern.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import msgspec

from sluice.api import kueue
from sluice.events.base import Event, JobKey, Micros, WorkloadKey
from sluice.events.checks import CheckStateChanged
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.envelope import Message
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    QuotaReleased,
    QuotaReserved,
    WorkloadDeactivated,
    WorkloadSliceReplaced,
)
from sluice.events.slices import (
    ExecutorLost,
    ExecutorSeen,
    InputsIgnored,
    JobClaimed,
    JobResized,
    JobResumed,
    JobSuspended,
    ReclaimablePodsUpdated,
    Rejected,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadPodsReady,
    WorkloadStopped,
    WorkloadUpdated,
)
from sluice.events.variants import ParentAdmitted, ParentDeactivated, ParentEvicted, ParentReleased

from .slices_answers import DELETED, REPLACED, SLICE_REPLACED
from .slices_dispatch import cut, placement
from .slices_intake import inbound as read_job_message
from .slices_intake import presence as read_presence
from .slices_manifest import in_force, note_before_end
from .slices_resize import counts, granted, grows, low_since, note_size
from .slices_state import MICROS, Finished, Job, Phase, State, Stop, Todo

MAX_LOST = 4096
"""How many agents are remembered after they were lost."""

# Folding what comes from outside


def _message(state: State, event: Message, seq: int, at: Micros) -> None:
    if event.subject.startswith("presence."):
        state.presence.append(read_presence(event, seq))
        return
    key, inbound = read_job_message(event, seq, at)
    state.receive(key, inbound)


def _object_applied(state: State, event: ObjectApplied, seq: int, _at: Micros) -> None:
    try:
        match event.kind:
            case "WorkloadPriorityClass":
                found = msgspec.json.decode(event.object, type=kueue.WorkloadPriorityClass)
                state.priorities[event.name] = found.value
            case "ResourceFlavor":
                flavor = msgspec.json.decode(event.object, type=kueue.ResourceFlavor)
                state.flavors[event.name] = flavor.spec
            case "LocalQueue":
                queue = msgspec.json.decode(event.object, type=kueue.LocalQueue)
                state.cluster_queues[f"{event.namespace}/{event.name}"] = queue.spec.cluster_queue
            case "ClusterQueue":
                spec = msgspec.json.decode(event.object, type=kueue.ClusterQueue).spec
                state.concurrent.pop(event.name, None)
                if spec.concurrent_admission_policy is not None:
                    state.concurrent[event.name] = None
            case "Configuration":
                state.config = msgspec.json.decode(event.object, type=kueue.Configuration).spec
                _prune_all(state, seq)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The configuration's writer has validated it; whatever else stands there means nothing here.
        return


def _object_deleted(state: State, event: ObjectDeleted, _seq: int, _at: Micros) -> None:
    match event.kind:
        case "WorkloadPriorityClass":
            state.priorities.pop(event.name, None)
        case "ResourceFlavor":
            state.flavors.pop(event.name, None)
        case "LocalQueue":
            state.cluster_queues.pop(f"{event.namespace}/{event.name}", None)
        case "ClusterQueue":
            state.concurrent.pop(event.name, None)
        case "Configuration":
            state.config = kueue.ConfigurationSpec()


# Folding what other services say


def _quota_reserved(state: State, event: QuotaReserved | ParentAdmitted, seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    if job.pending is not None and job.pending.key == event.workload:
        job.pending_assignment = event.pod_sets
        return
    job.reserved = True
    job.evicting = False
    job.through_variant = isinstance(event, ParentAdmitted)
    job.assignment = event.pod_sets
    if job.edited:
        job.edited = False
        if not _matches(state, job, event):
            state.set_todo(job, Todo.RECREATE, seq)


def _matches(state: State, job: Job, event: QuotaReserved | ParentAdmitted) -> bool:
    """Tell whether the reservation is for the workload as it is now, not as it was before an edit."""
    record = job.record
    expected = state.cluster_queues.get(f"{record.namespace}/{record.queue_name}", event.cluster_queue)
    if event.cluster_queue != expected:
        return False
    low = low_since(job, event.pod_sets)
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
        if any(
            assigned.usage.get(name, 0) != value * assigned.count for name, value in pods.requests.items()
        ):
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


def _slice_replaced(state: State, event: WorkloadSliceReplaced, seq: int, at: Micros) -> None:
    """The new slice speaks for the job from here on; its attempt goes on, with other counts (WS3, WS4)."""
    job = state.by_workload.get(event.by)
    if job is None or job.pending is None or job.pending.key != event.by or job.record.key != event.workload:
        return
    had = counts(granted(job, job.pending_assignment, job.pending.pod_sets))
    _succeed(state, job, at)
    _prune(state, job, seq)
    job.reserved = True
    if job.phase is not Phase.PENDING:
        job.placement = cut(placement(state, job), had)
        job.pods_ready = False
        if job.phase is Phase.RUNNING:
            state.set_todo(job, Todo.RESIZE, seq)
    elif job.admitted:
        smaller = grows(had, counts(job.record.pod_sets))
        state.set_todo(job, Todo.RECREATE if smaller else Todo.RESUME, seq)
    state.touch(job)


def _succeed(state: State, job: Job, at: Micros) -> None:
    """Let the pending slice speak for the job; the old one becomes history."""
    assert job.pending is not None
    del state.by_workload[job.record.key]
    _to_history(state, job, job.record.key, at)
    job.record = job.pending
    job.assignment = job.pending_assignment
    job.updates = job.pending_updates
    job.admitted = job.pending_admitted
    job.evicting = job.edited = False
    job.reclaimable = {}
    _no_pending(job)


def _begin_sizes(job: Job) -> None:
    size = counts((job.record if job.pending is None else job.pending).pod_sets)
    job.sizes = [(size, dict(size))]


def _to_history(state: State, job: Job, key: WorkloadKey, at: Micros) -> None:
    job.history.append(key)
    state.replaced[key] = job
    state.aging[key] = (job.key, at)


def _no_pending(job: Job) -> None:
    job.pending = None
    _begin_sizes(job)
    job.pending_assignment, job.pending_updates, job.pending_admitted = (), {}, False


def _prune(state: State, job: Job, seq: int) -> None:
    if job.todo is Todo.NONE and len(job.history) > state.config.workload_slice_history_limit:
        state.set_todo(job, Todo.PRUNE, seq)


def _prune_all(state: State, seq: int) -> None:
    """The limit may be a smaller one now; in the order of `aging`, which snapshots keep."""
    for key in state.aging:
        job = state.replaced.get(key)
        if job is not None:
            _prune(state, job, seq)


def _evicted(state: State, event: Evicted | ParentEvicted, seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None or job.record.key != event.workload:
        return
    job.evicting = True
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
        job.pending_assignment, job.pending_updates, job.pending_admitted = (), {}, False
        return
    job.reserved = job.admitted = job.evicting = job.through_variant = False
    _begin_sizes(job)
    job.assignment = ()
    job.updates = {}
    if job.phase is Phase.RUNNING:
        # Not how the handshake goes; but what has no quota must not run.
        job.reason, job.message = "QuotaReleased", "The quota was released"
        state.set_todo(job, Todo.SUSPEND, seq)
    elif job.todo in (Todo.RESUME, Todo.CONFIRM_STOP):
        state.clear_todo(job)
    if job.phase is Phase.PENDING and job.pending is not None:
        state.set_todo(job, Todo.FORGET_SLICE, seq)


def _parent_admitted(state: State, event: ParentAdmitted, seq: int, at: Micros) -> None:
    """What a job's workload gets through one of its variants is as good as its own (CA7)."""
    _quota_reserved(state, event, seq, at)
    job = state.by_workload.get(event.workload)
    if job is not None:
        job.updates = dict(event.updates)
    _admitted(state, event, seq, at)


def _deactivated(
    state: State, event: WorkloadDeactivated | ParentDeactivated, _seq: int, _at: Micros
) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    if job.record.key == event.workload:
        job.record = msgspec.structs.replace(job.record, active=False)
    elif job.pending is not None:
        job.pending = msgspec.structs.replace(job.pending, active=False)


def _check_state(state: State, event: CheckStateChanged, _seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    updates = job.updates if job.record.key == event.workload else job.pending_updates
    if event.state == "Ready" and event.pod_set_updates:
        updates[event.check] = event.pod_set_updates
    else:
        updates.pop(event.check, None)


# Folding one's own


def _created(state: State, event: WorkloadCreated, _seq: int, _at: Micros) -> None:
    record = event.workload
    reference = record.job
    if reference is None:
        return
    key = reference.key
    inbound = state.answered(event.cause)
    job = state.jobs.get(key)
    if job is None:
        _drop_finished(state, key)
        job = Job(key=key, uid=reference.uid, record=record, manifest_seq=event.cause)
        _begin_sizes(job)
        state.jobs[key] = job
    elif record.replaces == job.record.key:
        job.pending = record
        _begin_sizes(job)
        job.revision += 1
        state.by_workload[record.key] = job
        if job.todo is Todo.GROW:
            state.clear_todo(job)
        if inbound is not None:
            in_force(state, job, inbound)
        state.touch(job)
        return
    else:
        del state.by_workload[job.record.key]
        if job.pending is not None:
            del state.by_workload[job.pending.key]
            _no_pending(job)
        state.clear_todo(job)
        state.set_executor(job, "")
        job.record = record
        job.revision += 1
        job.phase = Phase.PENDING
        job.reserved = job.admitted = job.edited = job.pods_ready = job.evicting = False
        job.through_variant = False
        job.assignment, job.updates, job.reclaimable = (), {}, {}
        _begin_sizes(job)
    state.by_workload[record.key] = job
    if inbound is not None:
        in_force(state, job, inbound)
    state.touch(job)


def _updated(state: State, event: WorkloadUpdated, _seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    changes = {
        name: value
        for name in WorkloadUpdated.__struct_fields__
        if name not in ("cause", "workload") and (value := getattr(event, name)) is not None
    }
    if job.pending is not None and job.pending.key == event.workload:
        job.pending = msgspec.structs.replace(job.pending, **changes)
        if event.pod_sets is not None:
            note_size(job, counts(event.pod_sets))
    elif changes:
        job.record = msgspec.structs.replace(job.record, **changes)
        if event.pod_sets is not None and job.phase is Phase.RUNNING:
            job.placement = cut(job.placement, counts(event.pod_sets))
        if event.pod_sets is not None and job.pending is None:
            note_size(job, counts(event.pod_sets))
    if job.phase is Phase.PENDING and not job.reserved and ("pod_sets" in changes or "queue_name" in changes):
        job.edited = True
    inbound = state.answered(event.cause)
    if inbound is not None:
        in_force(state, job, inbound)
    state.touch(job)


def _resumed(state: State, event: JobResumed, _seq: int, _at: Micros) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    state.clear_todo(job)
    job.phase = Phase.RUNNING
    job.attempt = event.attempt
    job.pods_ready = False
    job.reclaimable = {}
    job.reason = job.message = ""
    job.placement = cut(placement(state, job), counts(job.record.pod_sets))
    state.touch(job)


def _resized(state: State, event: JobResized, _seq: int, _at: Micros) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    state.clear_todo(job)
    if grows(event.pods, counts(job.record.pod_sets)):
        state.set_todo(job, Todo.GROW, event.cause)
    else:
        _prune(state, job, event.cause)
    state.touch(job)


def _suspended(state: State, event: JobSuspended, _seq: int, _at: Micros) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    state.clear_todo(job)
    job.phase = Phase.STOPPING
    job.reason, job.message = event.reason, event.message
    job.stop = {DELETED: Stop.DELETED, REPLACED: Stop.REPLACED}.get(event.reason, Stop.EVICTED)
    if job.stop is Stop.DELETED:
        state.answered(event.cause)
    state.touch(job)


def _claimed(state: State, event: JobClaimed, _seq: int, _at: Micros) -> None:
    state.answered(event.cause)
    job = state.jobs.get(event.job)
    if job is not None:
        state.set_executor(job, event.executor)


def _pods_ready(state: State, event: WorkloadPodsReady, _seq: int, _at: Micros) -> None:
    state.answered(event.cause)
    job = state.by_workload.get(event.workload)
    if job is not None:
        job.pods_ready = event.ready


def _reclaimable(state: State, event: ReclaimablePodsUpdated, _seq: int, _at: Micros) -> None:
    state.answered(event.cause)
    job = state.by_workload.get(event.workload)
    if job is not None:
        job.reclaimable = event.pods


def _stopped(state: State, event: WorkloadStopped, _seq: int, _at: Micros) -> None:
    state.answered(event.cause)
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    state.clear_todo(job)
    state.set_executor(job, "")
    job.phase = Phase.PENDING
    job.admitted = job.pods_ready = False
    job.placement = ()
    if event.reason:
        job.reason, job.message = event.reason, event.message
    state.touch(job)


def _finished(state: State, event: WorkloadFinished, _seq: int, at: Micros) -> None:
    state.answered(event.cause)
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    if job.pending is not None and job.pending.key == event.workload:
        # It ends with its job, of which more is said next.
        del state.by_workload[event.workload]
        _to_history(state, job, event.workload, at)
        _no_pending(job)
        return
    if event.reason == SLICE_REPLACED and job.pending is not None:
        state.clear_todo(job)
        _succeed(state, job, at)
        job.reserved = False
        state.touch(job)
        return
    note_before_end(state, job)
    _drop_job(state, job)
    key = job.key
    due = None if job.ttl_s is None else at + job.ttl_s * MICROS
    state.finished[key] = Finished(
        key=key,
        uid=job.uid,
        workload=event.workload,
        finished_at=at,
        attempt=job.attempt,
        message_id=job.message_id,
        slices=job.history,
        due=due,
    )
    state.finished_workloads[event.workload] = key
    if due is not None:
        heappush(state.expiry, (due, key))


def _deleted(state: State, event: WorkloadDeleted, _seq: int, _at: Micros) -> None:
    state.answered(event.cause)
    job = state.by_workload.get(event.workload)
    if job is not None and job.pending is not None and job.pending.key == event.workload:
        del state.by_workload[event.workload]
        _no_pending(job)
        state.touch(job)
    elif job is not None:
        for key in job.history:
            del state.aging[key]
        _drop_job(state, job)
    elif (owner := state.replaced.pop(event.workload, None)) is not None:
        del state.aging[event.workload]
        owner.history.remove(event.workload)
        if owner.todo is Todo.PRUNE:
            state.clear_todo(owner)
            _prune(state, owner, event.cause)
    elif (whose := state.finished_workloads.get(event.workload)) is not None:
        _drop_finished(state, whose)
    elif (aging := state.aging.pop(event.workload, None)) is not None:
        state.finished[aging[0]].slices.remove(event.workload)


def _drop_job(state: State, job: Job) -> None:
    state.clear_todo(job)
    state.set_executor(job, "")
    del state.by_workload[job.record.key]
    if job.pending is not None:
        del state.by_workload[job.pending.key]
    for key in job.history:
        del state.replaced[key]
    del state.jobs[job.key]
    state.unread.pop(job.key, None)
    state.touch(job)


def _drop_finished(state: State, key: JobKey) -> None:
    finished = state.finished.pop(key, None)
    if finished is None:
        return
    del state.finished_workloads[finished.workload]
    for slice_key in finished.slices:
        del state.aging[slice_key]
    expiry = state.expiry
    while expiry and ((kept := state.finished.get(expiry[0][1])) is None or kept.due != expiry[0][0]):
        heappop(expiry)


def _rejected(state: State, event: Rejected, _seq: int, _at: Micros) -> None:
    if state.answered(event.cause) is None:
        _presence_answered(state, event.cause)


def _ignored(state: State, event: InputsIgnored, _seq: int, _at: Micros) -> None:
    for seq in event.seqs:
        if state.answered(seq) is None:
            _presence_answered(state, seq)


def _presence_answered(state: State, seq: int) -> None:
    if state.presence and state.presence[0].seq == seq:
        state.presence.popleft()


def _executor_seen(state: State, event: ExecutorSeen, _seq: int, _at: Micros) -> None:
    _presence_answered(state, event.cause)
    state.executors.pop(event.executor, None)
    state.executors[event.executor] = True


def _executor_lost(state: State, event: ExecutorLost, _seq: int, _at: Micros) -> None:
    _presence_answered(state, event.cause)
    executors = state.executors
    executors.pop(event.executor, None)
    executors[event.executor] = False
    if len(executors) > MAX_LOST:
        oldest = next((name for name, present in executors.items() if not present), None)
        if oldest is not None:
            del executors[oldest]


HANDLERS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    Message: _message,
    ObjectApplied: _object_applied,
    ObjectDeleted: _object_deleted,
    QuotaReserved: _quota_reserved,
    Admitted: _admitted,
    Evicted: _evicted,
    QuotaReleased: _quota_released,
    WorkloadDeactivated: _deactivated,
    WorkloadSliceReplaced: _slice_replaced,
    ParentAdmitted: _parent_admitted,
    ParentDeactivated: _deactivated,
    ParentEvicted: _evicted,
    ParentReleased: _quota_released,
    CheckStateChanged: _check_state,
    WorkloadCreated: _created,
    WorkloadUpdated: _updated,
    JobResumed: _resumed,
    JobResized: _resized,
    JobSuspended: _suspended,
    JobClaimed: _claimed,
    WorkloadPodsReady: _pods_ready,
    ReclaimablePodsUpdated: _reclaimable,
    WorkloadStopped: _stopped,
    WorkloadFinished: _finished,
    WorkloadDeleted: _deleted,
    Rejected: _rejected,
    InputsIgnored: _ignored,
    ExecutorSeen: _executor_seen,
    ExecutorLost: _executor_lost,
}
