"""Fold of the dispatcher: each event's change of its state. No choices are left here.

`HANDLERS` says which events are folded; all others are of no concern.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.api import kueue, labels
from sluice.api.check_parameters import CellLadder, CellLadderSpec
from sluice.api.errors import UNREADABLE
from sluice.core.timing import MICROS_PER_S
from sluice.core.workload.charges import counts
from sluice.events import checks, dispatch, slices
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.envelope import Message
from sluice.protocol.cells import CONTROLLERS
from sluice.protocol.subjects import job_of

from .fold_growth import HANDLERS as GROWTH
from .intake import report
from .state import (
    ABANDONED,
    HELD,
    LEAVING,
    NO_ROOM,
    NOBODY,
    NOWHERE,
    OFFERED,
    REFUSED,
    CheckRow,
    Drain,
    Offer,
    Origin,
    Placement,
    RemoteEnd,
    State,
    Worker,
)

REFUSED_MOST = 64
"""So many rejected manifests of a live job are remembered."""

# What comes from outside


def _message(state: State, event: Message, seq: int, _at: Micros) -> None:
    state.reports.append(report(event, seq))


def _applied(state: State, event: ObjectApplied, seq: int, at: Micros) -> None:
    try:
        match event.kind:
            case "AdmissionCheck":
                spec = msgspec.json.decode(event.object, type=kueue.AdmissionCheck).spec
                if spec.controller_name not in CONTROLLERS:
                    return
                of = spec.parameters
                row = CheckRow(spec.controller_name, *((of.kind, of.name) if of is not None else ()))
                state.checks[event.name] = row
            case "MultiKueueCluster":
                cluster = msgspec.json.decode(event.object, type=kueue.MultiKueueCluster)
                _drained(state, event.name, cluster.metadata.annotations.get(labels.DRAIN), at)
                source = cluster.spec.cluster_source
                state.clusters[event.name] = source.kube_config.location if source.kube_config else ""
                state.cells.setdefault(event.name, Worker())
            case "MultiKueueConfig":
                config = msgspec.json.decode(event.object, type=kueue.MultiKueueConfig).spec
                state.ladders[event.kind, event.name] = CellLadderSpec(cells=config.clusters)
            case "CellLadder":
                ladder = msgspec.json.decode(event.object, type=CellLadder).spec
                state.ladders[event.kind, event.name] = ladder
            case _:
                return
    except UNREADABLE:
        # The configuration's writer has validated it; whatever else stands there means nothing here.
        return
    _look_at_all(state, seq)


def _drained(state: State, cell: str, said: str | None, at: Micros) -> None:
    if said is None:
        state.drained.pop(cell, None)
        return
    before = state.drained.get(cell)
    state.drained[cell] = Drain(before.since if before is not None else at, said == labels.MOVE)


def _removed(state: State, event: ObjectDeleted, seq: int, _at: Micros) -> None:
    match event.kind:
        case "AdmissionCheck":
            state.checks.pop(event.name, None)
        case "MultiKueueCluster":
            state.clusters.pop(event.name, None)
            state.drained.pop(event.name, None)
        case "MultiKueueConfig" | "CellLadder":
            state.ladders.pop((event.kind, event.name), None)
        case _:
            return
    _look_at_all(state, seq)


def _look_at_all(state: State, cause: int) -> None:
    for placement in state.placements.values():
        state.touch(placement, cause)


# Workloads and their jobs


def _created(state: State, event: slices.WorkloadCreated, _seq: int, _at: Micros) -> None:
    record = event.workload
    if record.job is None:
        return
    before = state.origins.get(state.newest.get(record.job.key, NOWHERE))
    first = before.first if before is not None and before.uid == record.job.uid else event.cause
    state.origins[record.key] = Origin(
        record.job.key,
        record.job.uid,
        event.cause,
        replaces=record.replaces or NOWHERE,
        first=first,
        last=event.cause,
        pods=counts(record.pod_sets),
    )
    state.newest[record.job.key] = record.key


def _updated(state: State, event: slices.WorkloadUpdated, seq: int, _at: Micros) -> None:
    """The job is another, or its size: what it holds quota for gets less by that, and never more."""
    origin = state.origins.get(event.workload)
    if origin is None or event.changes.keys() == {"active"}:
        return
    pods = origin.pods if event.pod_sets is None else counts(event.pod_sets)
    origin = msgspec.structs.replace(origin, last=max(origin.last, event.cause), pods=pods)
    state.origins[event.workload] = origin
    placement = state.placements.get(event.workload)
    if placement is not None:
        placement.origin = origin
        placement.pods = {name: min(n, pods.get(name, n)) for name, n in placement.pods.items()}
        state.touch_job(placement, seq)


def _rejected(state: State, event: slices.Rejected, _seq: int, _at: Micros) -> None:
    job = job_of(event.subject)
    if job in state.newest and event.event_type == "JobSubmitted":
        state.refused[job] = (*state.refused.get(job, ()), event.cause)[-REFUSED_MOST:]


def _over(
    state: State, event: slices.WorkloadFinished | slices.WorkloadDeleted, seq: int, _at: Micros
) -> None:
    origin = state.origins.pop(event.workload, None)
    if origin is not None and state.newest.get(origin.job) == event.workload:
        if origin.replaces in state.origins:
            state.newest[origin.job] = origin.replaces
        else:
            del state.newest[origin.job]
            state.refused.pop(origin.job, None)
    placement = state.placements.get(event.workload)
    if placement is not None:
        placement.ended = True
        state.touch_job(placement, seq)


def _resumed(state: State, event: slices.JobResumed, seq: int, _at: Micros) -> None:
    _take_place(state, event.workload)
    placement = state.placements.get(event.workload)
    if placement is not None and placement.winner and placement.open:
        placement.run, placement.suspended, placement.ready_heard = event.attempt, False, False
        state.touch(placement, seq)


def _resized(state: State, event: slices.JobResized, seq: int, _at: Micros) -> None:
    """A slice has taken the place of the one that ran: what was offered for that is for this one now."""
    _take_place(state, event.workload)
    placement = state.placements.get(event.workload)
    if placement is not None and placement.run:
        placement.pods, placement.ready_heard = dict(event.pods), False
        state.touch(placement, seq)


def _take_place(state: State, key: WorkloadKey) -> None:
    origin = state.origins.get(key)
    old = state.placements.get(origin.replaces) if origin is not None else None
    if origin is None or old is None or old.ended or not old.winner:
        return
    new = state.placements.pop(key, None)
    state.forget(old)
    for offer in old.offers.values():
        if new is not None and offer.attempt == old.attempt:
            offer.attempt = new.attempt
        state.by_offer[offer.name] = key
    old.key, old.origin = key, origin
    if new is not None:
        old.check, old.attempt, old.open, old.pods = new.check, new.attempt, new.open, new.pods
        old.concluded, old.message, old.after_s, old.heard = (
            new.concluded,
            new.message,
            new.after_s,
            new.heard,
        )
    state.placements[key] = old
    state.touch(old, 0)


def _suspended(state: State, event: slices.JobSuspended, seq: int, _at: Micros) -> None:
    placement = state.running(event.workload)
    if placement is not None and placement.run:
        placement.suspended = True
        state.touch(placement, seq)


def _stopped(state: State, event: slices.WorkloadStopped, seq: int, _at: Micros) -> None:
    placement = state.running(event.workload)
    if placement is not None:
        placement.run, placement.suspended = 0, False
        state.touch(placement, seq)


def _pods_ready(state: State, event: slices.WorkloadPodsReady, seq: int, _at: Micros) -> None:
    placement = state.placements.get(event.workload)
    if placement is not None:
        placement.ready_heard = event.ready
        state.touch(placement, seq)


# Checks


def _requested(state: State, event: checks.ChecksRequested, seq: int, _at: Micros) -> None:
    ours = [name for name in event.checks if name in state.checks]
    placement = state.placements.get(event.workload)
    if placement is not None and placement.attempt == event.attempt:
        if placement.check not in event.checks and not placement.run:
            placement.open = False  # the queue does not name the check any more
            state.touch(placement, seq)
        return
    if not ours:
        if placement is not None:
            placement.open = False
            state.touch(placement, seq)
        return
    if placement is None:
        origin = state.origins.get(event.workload)
        if origin is None:
            return  # a variant, or of a job that is over
        placement = state.placements[event.workload] = Placement(event.workload, origin)
    placement.check, placement.attempt, placement.open = ours[0], event.attempt, True
    placement.pods = dict(placement.origin.pods)
    placement.winner, placement.evicted, placement.finish = NOBODY, "", None
    placement.concluded, placement.heard, placement.run, placement.suspended = "", False, 0, False
    placement.rung, placement.cells, placement.due, placement.passes = "", [], 0, 0
    placement.asked, placement.refusals = {}, {}
    state.touch_job(placement, seq)


def _given_up(state: State, event: checks.ChecksWithdrawn, seq: int, _at: Micros) -> None:
    placement = state.placements.get(event.workload)
    if placement is None or placement.attempt != event.attempt:
        return
    if event.reason == "Finished" and placement.run and not placement.ended:
        return  # a slice has taken its place: JobResized says so
    placement.open = False
    state.touch_job(placement, seq)


def _check_says(
    state: State, event: checks.CheckStateChanged | checks.VerdictIgnored, seq: int, _at: Micros
) -> None:
    placement = state.placements.get(event.workload)
    if placement is None or (event.check, event.attempt) != (placement.check, placement.attempt):
        return
    if event.state == placement.concluded:
        placement.heard = True
        state.touch(placement, seq)


# Its own: rounds and offers


def _round(state: State, event: dispatch.RoundStarted, _seq: int, _at: Micros) -> None:
    placement = state.placements[event.workload]
    if event.passes != placement.passes:
        placement.asked, placement.refusals = {}, {}
    placement.passes, placement.rung, placement.due = event.passes, event.rung, event.due
    placement.cells = list(event.cells)
    placement.asked[event.rung] = [*placement.asked.get(event.rung, ()), *event.cells]
    state.touch(placement, event.cause)


def _offered(state: State, event: dispatch.Offered, _seq: int, at: Micros) -> None:
    placement = state.placements[event.workload]
    origin = placement.origin
    placement.offers[event.offer] = Offer(
        event.offer,
        event.cell,
        event.attempt,
        event.rung,
        origin.last,
        since=at,
        asked=dict(placement.pods),
    )
    placement.made += 1
    state.by_offer[event.offer] = event.workload


def _answered(state: State, event: dispatch.OfferAnswered, _seq: int, at: Micros) -> None:
    placement = state.placements[event.workload]
    offer = placement.offers[event.offer]
    state.touch(placement, event.cause)
    offer.remote, offer.remote_uid = event.remote or offer.remote, event.remote_uid or offer.remote_uid
    offer.pods = dict(event.pods) or offer.pods
    offer.message = event.message
    match event.answer:
        case "Held":
            offer.remote_attempt = event.remote_attempt
        case "Freed":
            offer.remote_attempt = 0
        case "Refused":
            placement.refusals[event.cell] = event.message
    if not offer.is_leaving:
        states = {"Held": HELD, "Freed": OFFERED, "NoRoom": NO_ROOM, "Refused": REFUSED}
        _enter(offer, states.get(event.answer, offer.state), at)


def _enter(offer: Offer, state: str, at: Micros) -> None:
    if offer.state != state:
        offer.state, offer.since = state, at


def _won(state: State, event: dispatch.Won, _seq: int, _at: Micros) -> None:
    placement = state.placements[event.workload]
    placement.winner = event.offer
    state.touch(placement, event.cause)


def _withdrawing(state: State, event: dispatch.WithdrawalStarted, _seq: int, at: Micros) -> None:
    placement = state.placements[event.workload]
    _enter(placement.offers[event.offer], LEAVING, at)
    state.touch(placement, event.cause)


def _withdrawn(state: State, event: dispatch.Withdrawn, _seq: int, _at: Micros) -> None:
    placement = state.placements[event.workload]
    placement.offers.pop(event.offer, None)
    state.by_offer.pop(event.offer, None)
    state.touch(placement, event.cause)


def _abandoned(state: State, event: dispatch.OfferAbandoned, _seq: int, at: Micros) -> None:
    placement = state.placements[event.workload]
    _enter(placement.offers[event.offer], ABANDONED, at)
    state.touch(placement, event.cause)


def _concluded(state: State, event: dispatch.PlacementConcluded, _seq: int, _at: Micros) -> None:
    placement = state.placements[event.workload]
    placement.concluded, placement.message, placement.after_s = event.state, event.message, event.after_s
    placement.heard = False
    state.touch_job(placement, event.cause)


def _ended(state: State, event: dispatch.PlacementEnded, _seq: int, _at: Micros) -> None:
    placement = state.placements[event.workload]
    state.touch(placement, event.cause)
    state.drop(placement)


# Its own: life in the worker


def _lifted(state: State, event: dispatch.HoldLifted, _seq: int, _at: Micros) -> None:
    placement = state.placements[event.workload]
    placement.offers[event.offer].lifted = event.remote_attempt
    state.touch(placement, event.cause)


def _started(state: State, event: dispatch.RemoteStarted, _seq: int, _at: Micros) -> None:
    placement = state.placements[event.workload]
    offer = placement.offers[event.offer]
    offer.started_at = offer.started_at or event.at
    offer.ready = offer.ready or event.ready
    state.touch(placement, event.cause)


def _evicted(state: State, event: dispatch.RemoteEvicted, _seq: int, at: Micros) -> None:
    placement = state.placements[event.workload]
    placement.evicted = event.message
    ladder = state.ladder(placement.check) or CellLadderSpec()
    placement.avoid[event.cell] = at + 2 * ladder.retry_after_seconds * MICROS_PER_S
    placement.offers[event.offer].remote_attempt = 0
    state.touch(placement, event.cause)


def _finished(state: State, event: dispatch.RemoteFinished, _seq: int, _at: Micros) -> None:
    placement = state.placements[event.workload]
    placement.finish = RemoteEnd(event.success, event.message)
    state.touch(placement, event.cause)


# Its own: cells


def _report_answered(state: State, cause: int) -> None:
    if state.reports and state.reports[0].seq == cause:
        state.reports.popleft()


def _heard(state: State, event: dispatch.CellHeard, _seq: int, _at: Micros) -> None:
    _report_answered(state, event.cause)
    state.cells.setdefault(event.cell, Worker()).upto = event.upto


def _lost(state: State, event: dispatch.CellLost, _seq: int, at: Micros) -> None:
    _report_answered(state, event.cause)
    cell = state.cells.setdefault(event.cell, Worker())
    cell.reachable, cell.lost_at, cell.since, cell.message = False, at, at, event.message
    _look_at_all(state, event.cause)


def _back(state: State, event: dispatch.CellBack, _seq: int, at: Micros) -> None:
    _report_answered(state, event.cause)
    cell = state.cells.setdefault(event.cell, Worker())
    cell.reachable, cell.lost_at, cell.since, cell.message = True, None, at, ""
    _look_at_all(state, event.cause)


def _orphan(state: State, event: dispatch.OrphanFound, _seq: int, _at: Micros) -> None:
    state.orphans[event.cell, event.offer] = event.cause


def _collected(state: State, event: dispatch.OrphanCollected, _seq: int, _at: Micros) -> None:
    state.orphans.pop((event.cell, event.offer), None)


def _refused(
    state: State, event: dispatch.ReportIgnored | dispatch.ReportRejected, _seq: int, _at: Micros
) -> None:
    _report_answered(state, event.cause)


HANDLERS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    Message: _message,
    ObjectApplied: _applied,
    ObjectDeleted: _removed,
    slices.WorkloadCreated: _created,
    slices.WorkloadUpdated: _updated,
    slices.Rejected: _rejected,
    slices.JobResized: _resized,
    slices.WorkloadFinished: _over,
    slices.WorkloadDeleted: _over,
    slices.WorkloadStopped: _stopped,
    slices.WorkloadPodsReady: _pods_ready,
    slices.JobResumed: _resumed,
    slices.JobSuspended: _suspended,
    checks.ChecksRequested: _requested,
    checks.ChecksWithdrawn: _given_up,
    checks.CheckStateChanged: _check_says,
    checks.VerdictIgnored: _check_says,
    dispatch.RoundStarted: _round,
    dispatch.Offered: _offered,
    dispatch.OfferAnswered: _answered,
    dispatch.Won: _won,
    dispatch.WithdrawalStarted: _withdrawing,
    dispatch.Withdrawn: _withdrawn,
    dispatch.OfferAbandoned: _abandoned,
    dispatch.PlacementConcluded: _concluded,
    dispatch.PlacementEnded: _ended,
    **GROWTH,
    dispatch.HoldLifted: _lifted,
    dispatch.RemoteStarted: _started,
    dispatch.RemoteEvicted: _evicted,
    dispatch.RemoteFinished: _finished,
    dispatch.CellHeard: _heard,
    dispatch.CellLost: _lost,
    dispatch.CellBack: _back,
    dispatch.OrphanFound: _orphan,
    dispatch.OrphanCollected: _collected,
    dispatch.ReportIgnored: _refused,
    dispatch.ReportRejected: _refused,
}
