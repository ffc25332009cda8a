"""Fold of the dispatcher's events of edits and sizes. No choices are left here."""

from collections.abc import Callable
from typing import Any

from sluice.core.workload.charges import grows
from sluice.events import dispatch
from sluice.events.base import Event, Micros

from .state import Growth, Offer, Placement, State


def _found(state: State, event: Any) -> tuple[Placement, Offer]:
    placement = state.placements[event.workload]
    state.touch(placement, event.cause)
    return placement, placement.offers[event.offer]


def _edited(state: State, event: dispatch.OfferEdited, _seq: int, _at: Micros) -> None:
    _, offer = _found(state, event)
    offer.edition, offer.asked, offer.source = event.edition, dict(event.pods), event.source


def _edit_answered(state: State, event: dispatch.EditAnswered, _seq: int, _at: Micros) -> None:
    _, offer = _found(state, event)
    offer.answered, offer.refusal = event.edition, event.message


def _growth(state: State, event: dispatch.GrowthAnswered, _seq: int, at: Micros) -> None:
    _, offer = _found(state, event)
    if event.answer == "Gone":
        if offer.growth is not None and offer.growth.remote == event.remote:
            offer.growth = None
        return
    if offer.growth is None or offer.growth.remote != event.remote:
        offer.growth = Growth(event.remote, since=at)
    growth = offer.growth
    growth.remote_uid = event.remote_uid or growth.remote_uid
    growth.pods = dict(event.pods) or growth.pods
    if event.answer in ("Held", "Freed"):
        growth.remote_attempt = event.remote_attempt if event.answer == "Held" else 0
        growth.message, growth.since = "", at
    elif event.answer == "NoRoom":
        growth.message = event.message


def _growth_lifted(state: State, event: dispatch.GrowthLifted, _seq: int, _at: Micros) -> None:
    _, offer = _found(state, event)
    if offer.growth is not None:
        offer.growth.lifted = event.remote_attempt


def _resized(state: State, event: dispatch.RemoteResized, _seq: int, _at: Micros) -> None:
    _, offer = _found(state, event)
    growth, pods = offer.growth, dict(event.pods)
    if growth is not None and growth.remote == event.remote:
        # It speaks for the job there from now on, and its reservation is the job's.
        offer.remote, offer.remote_uid = growth.remote, growth.remote_uid
        offer.remote_attempt, offer.lifted = growth.remote_attempt, growth.lifted
        pods = pods or growth.pods
        offer.growth = None
    if grows(offer.pods, pods):
        offer.ready = False
    offer.pods = pods or offer.pods


HANDLERS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    dispatch.OfferEdited: _edited,
    dispatch.EditAnswered: _edit_answered,
    dispatch.GrowthAnswered: _growth,
    dispatch.GrowthLifted: _growth_lifted,
    dispatch.RemoteResized: _resized,
}
