"""The rules of the dispatcher for one workload: rounds, the winner, its start, and its end.

Never do two cells run one attempt: the hold of an offer is lifted only after `Won`, which is said once for an
attempt, and only when no other offer of the workload can start any more (`State.blocks`).
"""

from sluice.api.check_parameters import CellLadderSpec
from sluice.events import dispatch
from sluice.events.base import Event, Micros

from .growth import edits, growth_events, is_growth, too_large, waits_for_old
from .ladder import chosen, concluded, is_over, next_round
from .state import ABANDONED, HELD, READY, REFUSED, RETRY, Offer, Placement, State

NO_LADDER = "The check's parameters name no MultiKueueConfig or CellLadder that there is"


def placement_events(state: State, placement: Placement, at: Micros) -> list[Event]:
    """Return the next events of one workload, [] when it is settled.

    1. Give up waiting for cells that were lost for too long.
    2. Take back the offers that are wanted no more.
    3. Forget what is over; let what has won start; else ask the next cells, and choose among their answers.
    """
    given_up: list[Event] = [
        _gone(dispatch.OfferAbandoned, placement, offer)
        for offer in placement.offers.values()
        if (moment := state.given_up_at(placement, offer)) is not None and moment <= at
    ]
    if given_up:
        return given_up
    leaving = _withdrawals(state, placement)
    if leaving:
        return leaving
    if not placement.open or placement.ended:
        over = placement.ended and not placement.offers
        return [dispatch.PlacementEnded(cause=placement.cause, workload=placement.key)] if over else []
    ladder = state.ladder(placement.check)
    blocked = any(state.blocks(placement, o) for o in placement.offers.values() if o.is_leaving)
    blocked = blocked or waits_for_old(state, placement)
    changes = edits(state, placement)
    if changes:
        return changes
    if placement.winner:
        return _won(state, placement, ladder or CellLadderSpec(), blocked=blocked)
    if placement.concluded:
        return []
    if is_growth(state, placement):
        return growth_events(state, placement)
    if ladder is None:
        return [concluded(placement, RETRY, NO_LADDER, CellLadderSpec(retry_after_seconds=60))]
    return _asking(state, placement, ladder, at, blocked=blocked)


def deadline(state: State, placement: Placement) -> Micros | None:
    """Return when time alone changes something for the workload."""
    moments = [
        moment
        for offer in placement.offers.values()
        if (moment := state.given_up_at(placement, offer)) is not None
    ]
    asking = placement.open and not (placement.winner or placement.concluded or placement.ended)
    if asking and any(not offer.is_leaving for offer in placement.offers.values()):
        moments.append(placement.due)
    return min(moments, default=None)


def _gone[E: Event](kind: type[E], placement: Placement, offer: Offer, **more: object) -> E:
    return kind(cause=placement.cause, workload=placement.key, cell=offer.cell, offer=offer.name, **more)  # type: ignore[call-arg]


def _withdrawals(state: State, placement: Placement) -> list[Event]:
    events: list[Event] = []
    for offer in placement.offers.values():
        if offer.is_leaving:
            continue
        reason = _why_leaves(state, placement, offer)
        if reason:
            events += _withdrawal(placement, offer, reason)
    return events


def _withdrawal(placement: Placement, offer: Offer, reason: str) -> list[Event]:
    """Take an offer back. What was refused is not there, so there is nothing to be confirmed."""
    events: list[Event] = [_gone(dispatch.WithdrawalStarted, placement, offer, reason=reason)]
    if offer.state == REFUSED:
        events.append(_gone(dispatch.Withdrawn, placement, offer))
    return events


def _why_leaves(state: State, placement: Placement, offer: Offer) -> str:
    """Return why an offer is wanted no more, "" if it is."""
    if placement.ended:
        return "Finished"
    if not placement.open or offer.attempt != placement.attempt or placement.concluded == RETRY:
        return "Over"
    if placement.suspended:
        return "Suspended"
    if placement.winner and offer.name != placement.winner:
        return "Lost"
    if offer.cell in state.drained and offer.name != placement.winner:
        return "Drained"
    return ""


def _won(state: State, placement: Placement, ladder: CellLadderSpec, *, blocked: bool) -> list[Event]:
    """The attempt has its cell: let it start once nothing else can, or give the attempt up."""
    winner = placement.offers.get(placement.winner)
    if placement.concluded == RETRY or placement.finish is not None:
        return []
    if winner is None or winner.state == ABANDONED:
        cell = f"The cell {winner.cell} is out of reach" if winner is not None else placement.evicted
        return [concluded(placement, RETRY, cell or "The job is gone from its cell", ladder)]
    drain = state.drained.get(winner.cell)
    if drain is not None and drain.moves:
        return [concluded(placement, RETRY, f"The cell {winner.cell} is drained", ladder)]
    if why := too_large(placement, winner):
        return [concluded(placement, RETRY, why, ladder)]
    if placement.evicted:
        return [concluded(placement, RETRY, f"{winner.cell}: {placement.evicted}", ladder)]
    if blocked or winner.state != HELD or not winner.remote_attempt:
        return []
    if not placement.concluded:
        return [concluded(placement, READY, f"The job got room in {winner.cell}", ladder)]
    if placement.run and not placement.suspended and not winner.lifted and state.is_reachable(winner.cell):
        return [
            _gone(
                dispatch.HoldLifted,
                placement,
                winner,
                attempt=placement.attempt,
                run=placement.run,
                remote_attempt=winner.remote_attempt,
            )
        ]
    return []


def _asking(
    state: State, placement: Placement, ladder: CellLadderSpec, at: Micros, *, blocked: bool
) -> list[Event]:
    """No cell has it yet: choose, wait, or go on up the ladder."""
    if placement.rung:
        best = chosen(state, placement, at)
        if best is not None:
            return [_gone(dispatch.Won, placement, best, attempt=placement.attempt)]
        if not is_over(state, placement, at):
            return []
        leaving = [
            event
            for offer in placement.offers.values()
            if not offer.is_leaving
            for event in _withdrawal(placement, offer, "NextRound")
        ]
        if leaving:
            return leaving
    # What leaves may hold the very room that is asked for next.
    return [] if blocked else next_round(state, placement, ladder, at)
