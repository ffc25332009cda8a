"""Partial admission: run a workload with fewer pods than it asked for, but no fewer than it must (SC7)."""

from collections.abc import Callable, Sequence

from sluice.events.base import PodSet


def reduce_counts[R](pod_sets: Sequence[PodSet], attempt: Callable[[tuple[int, ...]], R | None]) -> R | None:
    """Return what *attempt* makes of the largest counts that it accepts; None when it accepts none.

    `attempt` gets the pods per pod set, by position, and returns None where they do not fit. Pod sets
    without `min_count` are left alone; several with one give up pods in proportion to what they can spare.
    Binary search: that fewer pods fit wherever more do is taken for granted.
    """
    spare = [0 if ps.min_count is None else max(0, ps.count - ps.min_count) for ps in pod_sets]
    total = sum(spare)
    if total == 0:
        return None
    best: R | None = None
    low, high = 0, total + 1
    while low < high:
        given_up = (low + high) // 2
        counts = tuple(
            ps.count - can_spare * given_up // total for ps, can_spare in zip(pod_sets, spare, strict=True)
        )
        found = attempt(counts)
        if found is None:
            low = given_up + 1
        else:
            best, high = found, given_up
    return best
