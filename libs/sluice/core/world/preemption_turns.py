"""Turns to preempt among the variants of a job: the better one's first (CA11, decision 0017).

The variant-controller opens their gates one after the other; scheduler and view reckon as it does.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from sluice.api.labels import GATE_CONCURRENT_ADMISSION
from sluice.events.slices import WorkloadRecord
from sluice.events.variants import PreemptionGateClosed, PreemptionGateOpened


class TakesTurns(Protocol):
    """A variant, as far as its turn goes."""

    spent: bool
    """It has had its turn, and others have not yet."""


class Racing(Protocol):
    """A variant that waits for its gate, or tries to preempt."""

    record: WorkloadRecord
    active: bool
    spent: bool

    @property
    def open_gates(self) -> Sequence[str]:
        """Return those of `record.preemption_gates` that are open."""


def gate_moved(
    variant: TakesTurns, family: Iterable[TakesTurns], event: PreemptionGateOpened | PreemptionGateClosed
) -> None:
    """Note that the variant has had its turn, or that a round begins: in that all of *family* have theirs."""
    if isinstance(event, PreemptionGateOpened):
        begins = variant.spent  # all have had their turn
    else:
        begins = not event.spent
        variant.spent = event.spent
    if begins:
        variant.spent = False
        for other in family:
            other.spent = False


def goes_first(variant: Racing, preference: int) -> bool:
    """Is its turn, which it has not had yet, before that of a sibling with that preference?

    One with a gate of its job's own never gets a turn.
    """
    return (
        variant.record.preference < preference
        and variant.active
        and not variant.spent
        and not any(
            gate != GATE_CONCURRENT_ADMISSION and gate not in variant.open_gates
            for gate in variant.record.preemption_gates
        )
    )


__all__ = ["gate_moved", "goes_first"]
