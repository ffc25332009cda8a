"""Places of a workload's job in other cells, for people: each cell, its state and since when."""

from dataclasses import dataclass, field

from sluice.events.base import JobKey, Micros, WorkloadKey

from .growth import is_growth
from .state import (
    ABANDONED,
    HELD,
    LEAVING,
    NO_ROOM,
    NOBODY,
    NOWHERE,
    REFUSED,
    Growth,
    Offer,
    Placement,
    State,
)


@dataclass
class Place:
    """A job in another cell."""

    cell: str
    state: str
    """Asked, Waiting, Held, Starting, Running, Finished, Refused, Leaving, Abandoned; Closed: not asked."""
    since: Micros
    job: JobKey
    """Its name there begins with this."""
    rung: str
    growth: bool = False
    """It is about pods that the job is to have besides those that run."""
    pods: dict[str, int] = field(default_factory=dict)
    message: str = ""
    refusal: str = ""
    """Why the cell has not taken up the job's last change."""


def places_of(state: State, key: WorkloadKey) -> list[Place]:
    """Return where a workload's job is, the winner first; of a growth, where that is asked for."""
    placement = state.placements.get(key)
    if placement is None:
        return []
    if is_growth(state, placement):
        base = state.placements[placement.origin.replaces]
        winner = base.offers.get(base.winner)
        return [] if winner is None else [_growth(winner, placement)]
    found = sorted(placement.offers.values(), key=lambda offer: offer.name != placement.winner)
    places = [_place(placement, offer) for offer in found]
    if placement.open and not placement.winner and not placement.ended:
        places += _closed(state, placement, {offer.cell for offer in found})
    return places


def _closed(state: State, placement: Placement, taken: set[str]) -> list[Place]:
    """Return the cells of its ladder that cannot be asked."""
    found = []
    ladder = state.ladder(placement.check)
    for cell in ladder.cells if ladder is not None else ():
        worker, drain = state.cells.get(cell), state.drained.get(cell)
        since, why = (worker.since if worker is not None else 0), "it is out of reach"
        if drain is not None:
            since, why = drain.since, "it is drained"
        elif cell not in state.clusters:
            why = "there is no such MultiKueueCluster"
        elif state.is_reachable(cell):
            continue
        if cell not in taken:
            found.append(Place(cell, "Closed", since, NOBODY, "", message=why))
    return found


def _place(placement: Placement, offer: Offer) -> Place:
    name = _state(placement, offer)
    return Place(
        cell=offer.cell,
        state=name,
        since=offer.started_at if name == "Running" and offer.started_at else offer.since,
        job=offer.name,
        rung=offer.rung,
        pods=offer.pods or offer.asked,
        message=offer.message if name in ("Waiting", "Refused") else "",
        refusal=offer.refusal,
    )


def _growth(winner: Offer, growth: Placement) -> Place:
    there = winner.growth or Growth(NOWHERE, since=winner.since)
    return Place(
        cell=winner.cell,
        state="Held" if there.remote_attempt else "Waiting" if there.message else "Asked",
        since=there.since,
        job=winner.name,
        rung=winner.rung,
        growth=True,
        pods=growth.pods,
        message=there.message,
        refusal=winner.refusal,
    )


_FIXED = {LEAVING: "Leaving", ABANDONED: "Abandoned", REFUSED: "Refused"}


def _state(placement: Placement, offer: Offer) -> str:
    if offer.state in _FIXED:
        return _FIXED[offer.state]
    if offer.name == placement.winner and offer.lifted:
        if placement.finish is not None:
            return "Finished"
        return "Running" if offer.started_at else "Starting"
    return {HELD: "Held", NO_ROOM: "Waiting"}.get(offer.state, "Asked")
