"""Ladder of cells: those to be asked next, the rung, and the choice among those that have answered."""

import hashlib

from sluice.api.check_parameters import RUNGS, CellLadderSpec
from sluice.core.timing import MICROS_PER_S
from sluice.events import dispatch
from sluice.events.base import Event, JobKey, Micros

from .state import HELD, OFFERED, PREEMPTS, REFUSED, STANDS, Offer, Placement, State

NAME_MOST = 48
"""Characters of a job's name that stand in the name of an offer."""
HASH_LENGTH = 10


def chosen(state: State, placement: Placement, at: Micros) -> Offer | None:
    """Return the offer that gets the job: the most preferred that is held, once nobody better may yet answer.

    Standing offers answer when room appears: of those nobody waits for another one.
    """
    for cell in placement.cells:
        offer = placement.offer_in(cell)
        if offer is None or not state.is_reachable(cell):
            continue
        if offer.state == HELD:
            return offer
        if offer.state == OFFERED and at < placement.due and placement.rung != STANDS:
            return None
    return None


def is_over(state: State, placement: Placement, at: Micros) -> bool:
    """Is nothing to be expected of the present round any more?"""
    if not placement.rung or at >= placement.due:
        return True
    for cell in placement.cells:
        offer = placement.offer_in(cell)
        if offer is None or not state.is_reachable(cell) or offer.state == REFUSED:
            continue
        if offer.state in (OFFERED, HELD) or placement.rung in (STANDS, PREEMPTS):
            return False
    return True


def next_round(state: State, placement: Placement, ladder: CellLadderSpec, at: Micros) -> list[Event]:
    """Return the next round with its offers; [] while no cell can be asked; Retry if none takes the job."""
    order = _order(state, placement, ladder, at)
    if not order:
        return []
    rungs = (*(ladder.rungs or RUNGS), STANDS)
    begin = rungs.index(placement.rung) if placement.rung in rungs else 0
    passes = placement.passes or 1
    for rung in rungs[begin:]:
        asked = placement.asked.get(rung, ())
        left = [cell for cell in order if cell not in asked]
        if left:
            return _round(placement, ladder, rung, left, passes, at)
    if all(cell in placement.refusals for cell in order):
        why = "; ".join(f"{cell}: {placement.refusals[cell]}" for cell in order)
        return [concluded(placement, "Retry", f"No cell takes the job: {why}"[:512], ladder)]
    return _round(placement, ladder, rungs[0], order, passes + 1, at)


def _order(state: State, placement: Placement, ladder: CellLadderSpec, at: Micros) -> list[str]:
    """Return the cells that can be asked: in reach, and with nothing of the workload left there."""
    taken = {offer.cell for offer in placement.offers.values()}
    closed = taken | state.drained.keys()
    free = [cell for cell in ladder.cells if state.is_reachable(cell) and cell not in closed]
    return sorted(free, key=lambda cell: placement.avoid.get(cell, 0) > at)


def _round(
    placement: Placement, ladder: CellLadderSpec, rung: str, cells: list[str], passes: int, at: Micros
) -> list[Event]:
    size = 1 if rung == PREEMPTS else len(cells) if rung == STANDS else ladder.step_size or len(cells)
    seconds = {PREEMPTS: ladder.preempt_within_seconds, STANDS: ladder.stand_seconds}.get(
        rung, ladder.decide_within_seconds
    )
    asked = cells[:size]
    begin = dispatch.RoundStarted(
        cause=placement.cause,
        workload=placement.key,
        attempt=placement.attempt,
        rung=rung,  # type: ignore[arg-type]
        cells=asked,
        passes=passes,
        due=at + seconds * MICROS_PER_S,
    )
    return [begin, *(_offer(placement, cell, rung, i) for i, cell in enumerate(asked))]


def _offer(placement: Placement, cell: str, rung: str, index: int) -> dispatch.Offered:
    origin = placement.origin
    parts: tuple[str, ...] = (origin.uid, cell, str(placement.attempt), str(placement.made + index))
    if origin.source != origin.first:
        parts = (placement.key, *parts)  # each workload of a job counts its reservations anew
    return dispatch.Offered(
        cause=placement.cause,
        workload=placement.key,
        attempt=placement.attempt,
        cell=cell,
        offer=offer_name(origin.job, parts),
        rung=rung,  # type: ignore[arg-type]
        source=origin.source,
    )


def offer_name(job: JobKey, parts: tuple[str, ...]) -> JobKey:
    """Return the name of an offer: the job's, and a hash by which no two offers have the same.

    >>> offer_name("ml/train", ("uid", "west", "1", "0"))
    'ml/train-7d2ee77cf0'
    """
    namespace, _, name = job.partition("/")
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:HASH_LENGTH]
    return JobKey(f"{namespace}/{name[:NAME_MOST].rstrip('-.')}-{digest}")


def concluded(
    placement: Placement, verdict: str, message: str, ladder: CellLadderSpec
) -> dispatch.PlacementConcluded:
    """Return what the check says."""
    return dispatch.PlacementConcluded(
        cause=placement.cause,
        workload=placement.key,
        attempt=placement.attempt,
        check=placement.check,
        state=verdict,  # type: ignore[arg-type]
        message=message,
        after_s=ladder.retry_after_seconds if verdict == "Retry" else 0,
    )
