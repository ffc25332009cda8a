"""Events that answer a message of a link: every message is the cause of some."""

from dataclasses import dataclass, field

from sluice.events import dispatch
from sluice.events.base import Event, JobKey
from sluice.protocol.cells import Fact, LinkDown, LinkUp, RemoteReport

from .state import Offer, Placement, Report, State


def report_events(state: State, report: Report) -> list[Event]:
    """Answer one message."""
    cause, name, data = report.seq, report.cell, report.data
    cell = state.cells.get(name)
    match data:
        case None:
            return [
                dispatch.ReportRejected(
                    cause=cause,
                    subject=report.subject[:512],
                    event_type=report.event_type,
                    errors=tuple(report.errors),
                )
            ]
        case LinkUp():
            if cell is not None and cell.reachable:
                return [_ignored(cause, name, "Duplicate")]
            return [dispatch.CellBack(cause=cause, cell=name)]
        case LinkDown():
            if cell is None or not cell.reachable:
                return [_ignored(cause, name, "Duplicate")]
            return [dispatch.CellLost(cause=cause, cell=name, message=data.message)]
        case RemoteReport():
            upto = cell.upto if cell is not None else 0
            if data.after != upto:
                return [_ignored(cause, name, "Duplicate" if data.upto <= upto else "Gap")]
            return _reported(state, name, data, cause)


def _ignored(cause: int, cell: str, reason: str) -> dispatch.ReportIgnored:
    return dispatch.ReportIgnored(cause=cause, cell=cell, reason=reason)  # type: ignore[arg-type]


@dataclass(slots=True)
class _Said:
    """What was said of earlier facts of the same report, which the state does not show yet."""

    gone: set[JobKey] = field(default_factory=set)
    orphans: set[JobKey] = field(default_factory=set)
    ended: set[JobKey] = field(default_factory=set)
    """Winners of which it was said that they cannot go on, or are done."""
    started: dict[JobKey, int] = field(default_factory=dict)
    resized: set[JobKey] = field(default_factory=set)
    """Of which it was said that they have another size: their pods are ready anew."""


def _reported(state: State, cell: str, data: RemoteReport, cause: int) -> list[Event]:
    said = _Said()
    events: list[Event] = []
    for fact in data.facts:
        placement = state.placements.get(state.by_offer.get(fact.job, "") or "")  # type: ignore[call-overload]
        offer = placement.offers.get(fact.job) if placement is not None else None
        if placement is None or offer is None or offer.cell != cell or fact.job in said.gone:
            events += _of_orphan(state, cell, fact, cause, said)
        else:
            events += _of_offer(placement, offer, fact, cause, said)
    return [*events, dispatch.CellHeard(cause=cause, cell=cell, upto=data.upto)]


def _of_orphan(state: State, cell: str, fact: Fact, cause: int, said: _Said) -> list[Event]:
    known = (cell, fact.job) in state.orphans or fact.job in said.orphans
    if fact.kind == "Gone":
        if not known:
            return []
        said.orphans.discard(fact.job)
        return [dispatch.OrphanCollected(cause=cause, cell=cell, offer=fact.job)]
    if known or fact.kind == "Refused":
        return []
    said.orphans.add(fact.job)
    return [dispatch.OrphanFound(cause=cause, cell=cell, offer=fact.job)]


def _of_offer(placement: Placement, offer: Offer, fact: Fact, cause: int, said: _Said) -> list[Event]:
    answer: dict[str, object]
    where = {"cause": cause, "workload": placement.key, "cell": offer.cell, "offer": offer.name}
    wins = offer.name == placement.winner and not offer.is_leaving
    match fact.kind:
        case "Present":
            answer = {
                "answer": "Taken",
                "remote": fact.workload,
                "remote_uid": fact.uid,
                "pods": fact.pods,
            }
        case "NoRoom":
            answer = {"answer": "NoRoom", "message": fact.message}
        case "Held":
            answer = {"answer": "Held", "remote_attempt": fact.attempt}
        case "Freed":
            answer = {"answer": "Freed"}
            if wins:
                return _over(where, offer, fact, said)
        case "Refused":
            answer = {"answer": "Refused", "message": fact.message}
            if wins or offer.is_leaving:
                # It never was there, or is no more.
                return [*(_over(where, offer, fact, said) if wins else ()), *_away(where, offer, said)]
        case "Running" | "Ready":
            ready = fact.kind == "Ready"
            known = offer.ready and offer.name not in said.resized
            if said.started.get(offer.name, offer.started_at) and (not ready or known):
                return []
            said.started[offer.name] = fact.at or 1
            return [dispatch.RemoteStarted(**where, at=fact.at, ready=ready)]  # type: ignore[arg-type]
        case "Stopped":
            return _over(where, offer, fact, said) if wins else []
        case "Finished":
            if not wins or not offer.lifted or offer.name in said.ended:
                return []
            said.ended.add(offer.name)
            return [_finished(where, offer, fact, said)]
        case "Gone":
            return [*(_over(where, offer, fact, said) if wins else ()), *_away(where, offer, said)]
        case _:
            return _of_size(where, offer, fact, said)
    if offer.state == answer["answer"] and fact.kind == "NoRoom":
        return []
    return [dispatch.OfferAnswered(**where, **answer)]  # type: ignore[arg-type]


def _of_size(where: dict[str, object], offer: Offer, fact: Fact, said: _Said) -> list[Event]:
    """What a cell says of edits, sizes and growth of a job that it has."""
    match fact.kind:
        case "Edited":
            if not offer.answered < fact.attempt <= offer.edition:
                return []
            return [dispatch.EditAnswered(**where, edition=fact.attempt, message=fact.message)]  # type: ignore[arg-type]
        case "Resized":
            said.resized.add(offer.name)
            resized = dispatch.RemoteResized(
                **where,  # type: ignore[arg-type]
                pods=fact.pods,
                remote=fact.workload,
                remote_uid=fact.uid,
            )
            return [resized]
    answers = {
        "Growing": "Asked",
        "GrowthNoRoom": "NoRoom",
        "GrowthHeld": "Held",
        "GrowthFreed": "Freed",
        "GrowthGone": "Gone",
    }
    there = offer.growth
    if fact.kind == "GrowthNoRoom" and there is not None and there.message == fact.message:
        return []
    answered = dispatch.GrowthAnswered(
        **where,  # type: ignore[arg-type]
        answer=answers[fact.kind],  # type: ignore[arg-type]
        remote=fact.workload,
        remote_uid=fact.uid,
        remote_attempt=fact.attempt,
        pods=fact.pods,
        message=fact.message,
    )
    return [answered]


def _over(where: dict[str, object], offer: Offer, fact: Fact, said: _Said) -> list[Event]:
    """The winner cannot go on in its cell."""
    if offer.name in said.ended:
        return []
    said.ended.add(offer.name)
    message = fact.message or f"The job has lost its place ({fact.kind})"
    return [dispatch.RemoteEvicted(**where, message=message)]  # type: ignore[arg-type]


def _away(where: dict[str, object], offer: Offer, said: _Said) -> list[Event]:
    said.gone.add(offer.name)
    return [dispatch.Withdrawn(**where)]  # type: ignore[arg-type]


def _finished(where: dict[str, object], offer: Offer, fact: Fact, said: _Said) -> dispatch.RemoteFinished:
    started = offer.started_at or said.started.get(offer.name, fact.at)
    return dispatch.RemoteFinished(
        **where,  # type: ignore[arg-type]
        success=fact.success,
        message=fact.message,
        started_at=started,
        finished_at=fact.at,
        remote_seq=fact.seq,
    )
