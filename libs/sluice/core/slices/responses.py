"""The ways in which a message can be answered, and the reasons in them."""

from collections.abc import Sequence

from sluice.api.errors import FieldError, forbidden, invalid, not_found, required
from sluice.core.step_size import Room
from sluice.events.base import Event, JobKey
from sluice.events.job import JobActivated, JobDeactivated, JobScaled
from sluice.events.slices import InputsIgnored, JobSuspended, Rejected, WorkloadCreated, WorkloadDeleted

from .intake import Inbound
from .state import Finished, Job, State
from .submission import Submission

__all__ = ["SLICE_REPLACED"]

DUPLICATE = "Duplicate"
STALE = "Stale"
SUPERSEDED = "Superseded"

SLICE_REPLACED = "WorkloadSliceReplaced"
"""Reason for which a workload slice is finished while its job goes on (WS4)."""


MAX_COUNT = 2**31 - 1

MAX_HELD = 32
"""Changes that wait for one job to stop, or for its growth to be withdrawn."""

STOPS = "the job is stopping, and {} changes wait for that: wait until it has stopped"
WITHDRAWS = "the job's growth was taken back, and {} changes wait for the scheduler to withdraw it"
"""Why a change cannot be held, after as many others."""

Events = Sequence[Event]

MAX_EVENTS = 4000
"""Of a step; after so many, what comes next has its turn in another one."""


def add_to_step(found: Events, events: list[Event], room: Room) -> bool:
    """Add what was found to the step if there is room for it; tell whether there is room for more."""
    if found:
        if not room.takes(found):
            return False
        events += found
    return len(events) < MAX_EVENTS and not any(isinstance(event, WorkloadCreated) for event in events[-2:])


def rejected(inbound: Inbound, errors: Sequence[FieldError]) -> Events:
    return (
        Rejected(
            cause=inbound.seq, subject=inbound.subject, event_type=inbound.event_type, errors=tuple(errors)
        ),
    )


def ignored(inbound: Inbound, reason: str) -> Events:
    return (InputsIgnored(cause=inbound.seq, seqs=(inbound.seq,), reason=reason),)


def unknown(inbound: Inbound, key: JobKey) -> Events:
    return rejected(inbound, (not_found("subject", key),))


def held(state: State, key: JobKey, inbound: Inbound, why: str) -> Events:
    """Let a change wait for what *why* says; refuse it when too many wait for that already."""
    before = sum(1 for seq in state.inbox.get(key, {}) if seq < inbound.seq)
    if before < MAX_HELD:
        return ()
    return rejected(inbound, (forbidden("", why.format(before)),))


def forgotten(finished: Finished, cause: int) -> Sequence[Event]:
    """Return the deletion of what is kept of a finished job: its last workload goes last."""
    keys = (*finished.slices, finished.workload)
    return tuple(WorkloadDeleted(cause=cause, workload=key) for key in keys)


def overtaken_by(state: State, key: JobKey, inbound: Inbound) -> Events:
    """Changes that waited while this message came need not be made any more."""
    seqs = tuple(
        held.seq
        for held in state.inbox.get(key, {}).values()
        if held.seq < inbound.seq
        and isinstance(held.data, Submission | JobScaled | JobActivated | JobDeactivated)
    )
    return (InputsIgnored(cause=inbound.seq, seqs=seqs, reason=SUPERSEDED),) if seqs else ()


def wrong_counts(field: str, given: dict[str, int], most: dict[str, int]) -> tuple[FieldError, ...]:
    errors = []
    for name, count in given.items():
        path = f"{field}[{name}]"
        if name not in most:
            errors.append(not_found(path, name))
        elif not 0 <= count <= most[name]:
            errors.append(invalid(path, count, f"must be between 0 and {most[name]}"))
    return tuple(errors)


def wrong_sizes(job: Job, scaled: JobScaled) -> tuple[FieldError, ...]:
    """Check sizes that a job is to have."""
    if not scaled.pod_sets:
        return (required("podSets"),)
    kind = job.record.job.kind if job.record.job is not None else ""
    fixed = tuple(
        forbidden(f"podSets[{name}]", f"a {kind} has one {name}: only its worker groups change their size")
        for name, count in scaled.pod_sets.items()
        if kind in ("RayCluster", "RayJob") and name in ("head", "submitter") and count != 1
    )
    most = {pods.name: MAX_COUNT for pods in job.record.pod_sets}
    changing = {name: n for name, n in scaled.pod_sets.items() if not any(name in e.field for e in fixed)}
    return (*fixed, *wrong_counts("podSets", changing, most))


def wrong_besides(job: Job | None, inbound: Inbound) -> tuple[FieldError, ...]:
    """Return what else is wrong with a message of which some fields could not be read: unknown pod sets."""
    if job is None or inbound.event_type != JobScaled.__name__:
        return ()
    plain = inbound.plain.get("podSets")
    if not isinstance(plain, dict):
        return ()
    known = {pods.name for pods in job.record.pod_sets}
    # Of those that nobody knows the count does not matter; of the others it could be read.
    sizes = {name: n if _is_count(n) else 0 for name, n in plain.items() if _is_count(n) or name not in known}
    return wrong_sizes(job, JobScaled(pod_sets=sizes)) if sizes else ()


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def stop_for(job: Job, cause: int, reason: str, message: str) -> JobSuspended:
    return JobSuspended(
        cause=cause,
        job=job.key,
        workload=job.record.key,
        attempt=job.attempt,
        reason=reason,
        message=message,
    )
