"""Sizes and edits of what is placed: a job's slices follow it to its cell (KEP-77), and so do its changes.

A growth is asked of the job's cell only. Its check is Ready when the cell has reserved quota for it; when the
manager has admitted it, too, its pods may start there. A smaller size is passed on as it is.
"""

from collections.abc import Mapping

from sluice.api.check_parameters import CellLadderSpec
from sluice.core.workload.charges import grows
from sluice.events import dispatch
from sluice.events.base import Event

from .ladder import concluded
from .state import READY, REFUSED, RETRY, Offer, Placement, State

REFUSED_AGAIN_S = 3600
"""A growth that its cell has refused is asked for again after so long."""


def is_growth(state: State, placement: Placement) -> bool:
    """Is it a slice by which a job is to grow that still has another one?"""
    base = state.placements.get(placement.origin.replaces)
    return base is not None and not base.ended


def waits_for_old(state: State, placement: Placement) -> bool:
    """Must it wait until what it replaces is gone from its cells?"""
    base = state.placements.get(placement.origin.replaces)
    return base is not None and any(state.blocks(base, offer) for offer in base.offers.values())


def growth_events(state: State, placement: Placement) -> list[Event]:
    """Return what the check of a growth says, once it can be told."""
    base = state.placements[placement.origin.replaces]
    winner = base.offers.get(base.winner)
    if winner is None or winner.asked != placement.pods or winner.answered != winner.edition:
        return []
    if winner.refusal:
        ladder = CellLadderSpec(retry_after_seconds=REFUSED_AGAIN_S)
        return [concluded(placement, RETRY, f"{winner.cell}: {winner.refusal}"[:512], ladder)]
    growth = winner.growth
    held = growth is not None and growth.remote_attempt and covers(growth.pods, placement.pods)
    if not held and not covers(winner.pods, placement.pods):
        return []
    message = f"The growth got room in {winner.cell}"
    return [concluded(placement, READY, message, CellLadderSpec())]


def too_large(placement: Placement, winner: Offer) -> str:
    """Return why a job must be placed anew: its cell keeps pods for which there is no quota here any more."""
    if not winner.refusal or winner.answered != winner.edition or not grows(placement.pods, winner.pods):
        return ""
    return f"{winner.cell} refuses the smaller size: {winner.refusal}"[:512]


def covers(pods: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    """Tell whether *pods* are as many as *wanted*, in each set."""
    return bool(pods) and not grows(pods, wanted)


def edits(state: State, placement: Placement) -> list[Event]:
    """Return how offers are to change, and which growth may start."""
    if placement.finish is not None or placement.concluded == RETRY or placement.suspended:
        return []
    return [
        event
        for offer in placement.offers.values()
        if not offer.is_leaving and offer.state != REFUSED
        for event in _edits_of(state, placement, offer)
    ]


def _edits_of(state: State, placement: Placement, offer: Offer) -> list[Event]:
    where = {"cause": placement.cause, "workload": placement.key, "cell": offer.cell, "offer": offer.name}
    pods, source = placement.pods, placement.origin.last
    growth = state.growth_of(placement) if offer.lifted and placement.run else None
    if growth is not None and growth.concluded != RETRY:
        pods, source = growth.pods, max(source, growth.origin.last)
    if (pods, source) != (offer.asked, offer.source):
        edition = offer.edition + 1
        return [dispatch.OfferEdited(**where, edition=edition, pods=pods, source=source)]  # type: ignore[arg-type]
    there = offer.growth
    if there is None or not there.remote_attempt or there.lifted == there.remote_attempt:
        return []
    if not (offer.lifted and placement.run and covers(placement.pods, there.pods)):
        return []
    lifted = dispatch.GrowthLifted(
        **where,  # type: ignore[arg-type]
        remote=there.remote,
        remote_attempt=there.remote_attempt,
    )
    return [lifted] if state.is_reachable(offer.cell) else []
