"""Marks on what the fold of one event has touched: folds set them, and `settle` looks at each once.

Of workloads what has happened to them (`Mark`), of cluster queues what an object of configuration has edited
(`Edit`).
"""

from typing import Final

from sluice.core.workload.reasons import PODS_READY_TIMEOUT
from sluice.core.world.workload import Workload


class Mark:
    """What has happened to a workload, not what is to be done about it: bits, to be joined.

    Folds append to `state.touched` the workload, its marks, and the sequence of what brought it about.
    """

    RELEASED: Final = 1 << 0
    """Its reservation, if it has one, is over."""
    RESIZED: Final = 1 << 1
    """What it is charged for may be less: its assignment has changed."""
    SHARES: Final = 1 << 2
    """Who of a family is charged for what they share may be another one."""
    RESERVED: Final = 1 << 3
    """It has quota now, so a slice beside it, or a sibling, may be charged for more or for less."""
    FREED: Final = 1 << 4
    """It is charged for less than what it has taken over."""
    LOWERED: Final = 1 << 5
    """It holds what it held, but others come before it now."""
    READY: Final = 1 << 6
    """Nobody has to wait for its pods (any more)."""
    GONE: Final = 1 << 7
    """It is none of the world's workloads any more."""
    DUE: Final = 1 << 8
    """Something may be due for it, now or later."""
    QUEUES: Final = 1 << 9
    """It may belong in another queue, or in none."""
    ASKS: Final = 1 << 10
    """As `QUEUES`; and what it asks for, or its rank, may be another."""
    VARIANTS: Final = 1 << 11
    """Whether its variants may queue has changed: it has, or has not, quota of its own."""
    TURN: Final = 1 << 12
    """Where its siblings queue may depend on it."""
    STANDS: Final = 1 << 13
    """As `TURN`; and what is due for those siblings that have quota."""
    SLICE: Final = 1 << 14
    """The slice that is to replace it, if any, depends on what has happened."""
    PREEMPTIONS: Final = 1 << 15
    """Its pending preemptions, if any, may be allowed now, or not any more."""
    INPUT: Final = 1 << 16
    """An input has changed what it holds, or may hold."""
    TARGETS: Final = 1 << 17
    """Who is to go for what it has reserved was chosen, for the first time or anew."""

    # What happens, as folds mark it.

    GOT_QUOTA: Final = RESERVED | STANDS | VARIANTS | SLICE
    ADMITTED: Final = SHARES | DUE | STANDS
    LEAVES: Final = SHARES | DUE | QUEUES | SLICE | STANDS
    """Evicted: it still has its quota."""
    GAVE_QUOTA: Final = RELEASED | READY | DUE | QUEUES | VARIANTS | SLICE | STANDS
    ENDED: Final = RELEASED | READY | GONE | SLICE | INPUT
    REPLACED: Final = READY | GONE
    """By its successor, which has its quota."""


class Edit:
    """What has changed of a cluster queue by an edit of configuration: bits, to be joined.

    Folds join them in `state.edited`, and append to `state.moved` the workloads that may belong elsewhere.
    """

    QUOTA: Final = 1 << 0
    """It has come, is gone, or has other quota: the verdicts in its tree are void, before and after."""
    TREE: Final = 1 << 1
    """It may belong to another tree, or be judged in another way there."""
    STATUS: Final = 1 << 2
    """It may be active now, or not any more."""
    VERDICTS: Final = 1 << 3
    """The verdicts on its workloads are void."""
    REFUSED: Final = 1 << 4
    """Those of its workloads that were refused a preemption may ask again."""


def stands(workload: Workload) -> tuple[bool, bool, bool, bool, bool, bool]:
    """Return what siblings depend on: see `variants.standing`, `backs_off` and `yields`."""
    return (
        workload.assignment is not None,
        workload.assignment is not None and workload.active,
        workload.admitted_at is not None,
        workload.evicted_at is not None,
        workload.held_for == PODS_READY_TIMEOUT and workload.active,
        (workload.tries or workload.blocked_on_gates) and workload.active,
    )
