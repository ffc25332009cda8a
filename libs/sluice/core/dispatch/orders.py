"""Orders that follow from the dispatcher's state: to workers, and verdicts in its own cell.

Both are level-triggered: as long as they are here they are to be seen to, however often.
"""

from collections.abc import Iterator

from sluice.events.base import WorkloadKey
from sluice.protocol.cells import Order, Saying

from .growth import covers
from .state import NOWHERE, REFUSED, Offer, Placement, State


def orders_of(state: State, key: WorkloadKey) -> Iterator[Order]:
    """Yield what is to be with the offers of a workload."""
    placement = state.placements.get(key)
    if placement is None:
        return
    for offer in placement.offers.values():
        if offer.state == REFUSED:
            continue
        growth = offer.growth
        yield Order(
            cell=offer.cell,
            job=offer.name,
            do="Withdraw" if offer.is_leaving else "Offer",
            rung=offer.rung,
            first=placement.origin.first,
            last=offer.source,
            refused=state.refused.get(placement.origin.job, ()),
            pods=offer.asked,
            edition=offer.edition,
            answered=offer.answered,
            origin=placement.origin.job,
            remote=offer.remote,
            remote_uid=offer.remote_uid,
            lift=0 if offer.is_leaving else offer.lifted,
            started=bool(offer.started_at),
            growth=growth.remote if growth is not None else NOWHERE,
            growth_uid=growth.remote_uid if growth is not None else "",
            growth_lift=0 if growth is None or offer.is_leaving else growth.lifted,
        )


def orphans(state: State) -> Iterator[Order]:
    """Yield what is to be with jobs that nobody here knows of."""
    for cell, job in sorted(state.orphans):
        yield Order(cell=cell, job=job, do="Withdraw")


def sayings(state: State, key: WorkloadKey) -> Iterator[Saying]:
    """Yield what is to be said of a workload in the manager's own cell."""
    placement = state.placements.get(key)
    if placement is None or placement.ended:
        return
    if placement.open and placement.concluded and not placement.heard:
        yield _verdict(state, placement)
    if placement.run:
        yield from _of_run(placement)


def _verdict(state: State, placement: Placement) -> Saying:
    row = state.checks.get(placement.check)
    return Saying(
        what="Verdict",
        workload=placement.key,
        job=placement.origin.job,
        uid=placement.origin.uid,
        controller=row.controller if row is not None else "",
        check=placement.check,
        number=placement.attempt,
        state=placement.concluded,  # type: ignore[arg-type]
        after_s=placement.after_s,
        message=placement.message,
    )


def _of_run(placement: Placement) -> Iterator[Saying]:
    origin, winner = placement.origin, placement.offers.get(placement.winner)

    def say(what: str, *, success: bool = True, message: str = "") -> Saying:
        return Saying(
            what=what,  # type: ignore[arg-type]
            workload=placement.key,
            job=origin.job,
            uid=origin.uid,
            number=placement.run,
            success=success,
            message=message,
        )

    if placement.finish is not None:
        yield say("Finished", success=placement.finish.success, message=placement.finish.message)
    elif placement.suspended:
        if not any(offer.lifted and offer.state != "Abandoned" for offer in placement.offers.values()):
            yield say("Stopped", message=placement.message if placement.concluded == "Retry" else "")
    elif winner is not None and winner.ready and not placement.ready_heard and _has_size(placement, winner):
        yield say("PodsReady")


def _has_size(placement: Placement, winner: Offer) -> bool:
    """Does its cell run as many pods as the job has by now?"""
    return not winner.pods or covers(winner.pods, placement.pods)
