"""Flavor assignment: which flavor each resource of each pod set would get, and what stands in the way (SC4).

Interface, for the cycle:

    assignment = assign(world, workload, cq, oracle, counts=..., scan=..., replaced=..., pinned=...)
    assignment.mode            Mode.FIT | Mode.PREEMPT | Mode.NO_FIT: the worst of its pod sets
    assignment.borrowing       height of the smallest cohort tree that has the quota; 0: own nominal quota
    assignment.usage           (flavor, resource) -> what admission would charge (the delta, for a slice)
    assignment.needs_preemption()   the (flavor, resource)s whose mode is PREEMPT
    assignment.pod_set_assignments()    for QuotaReserved
    assignment.scan            how far the scan came: record it, give it back next time (law 4)
    pending_flavors(scan)      are there flavors that this attempt did not come to?
    assignment.message, .no_fit_reason, .attempts_text()    built only when asked for

Nothing here changes the world; results depend on the arguments only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from sluice.events.base import PodSetAssignment

from .model import ClusterQueue, Workload, World
from .quota import FlavorResource

ScanState = Sequence[Mapping[str, int]]
"""Per pod set, by position: resource -> index of the last flavor tried in its group; -1: all were tried.

Plain data, for an event. It holds for one spec of the workload and of its queue: drop it when either changes.
"""

Pinned = Mapping[str, Mapping[str, str]]
"""Pod set name -> resource -> the only flavor to consider (a second look within the same cycle)."""


class Mode(IntEnum):
    """How a flavor could be assigned, worst first."""

    NO_FIT = 0
    PREEMPT = 1
    """Possible by quota, after preemption; whether there are candidates is the preemption's to say."""
    FIT = 2


class Possibility(IntEnum):
    """What preemption could do for one flavor and resource, worst first."""

    NO_CANDIDATES = 0
    PREEMPT = 1
    RECLAIM = 2
    """All victims are in other queues: only lent quota is taken back."""


class Oracle(Protocol):
    """Tries preemption without doing it."""

    def possibility(
        self, cq: ClusterQueue, workload: Workload, fr: FlavorResource, amount: int
    ) -> tuple[Possibility, int]:
        """Could *amount* more of *fr* be had by preempting? Second: the borrowing height afterwards."""
        ...


@dataclass(slots=True)
class FlavorChoice:
    """The flavor of one resource of one pod set."""

    name: str
    mode: Mode
    borrow: int = 0
    """Height of the smallest cohort tree with enough quota; 0 when nothing is borrowed."""
    tried_flavor_idx: int = -1


@dataclass(slots=True)
class Attempt:
    """One flavor that was looked at for a pod set: its worst outcome over the requested resources."""

    flavor: str
    mode: Mode
    borrow: int = 0
    possibility: Possibility | None = None
    reasons: tuple[str, ...] = ()
    no_fit_reason: str = ""


@dataclass(slots=True)
class PodSetResult:
    """One pod set: totals of all `count` pods, and the choice per resource (empty: none fits)."""

    name: str
    count: int
    requests: dict[str, int]
    flavors: dict[str, FlavorChoice] = field(default_factory=dict)


class Assignment:
    """The outcome for a whole workload. A refusal is a value, not an exception."""

    __slots__ = ("borrowing", "mode", "pod_sets", "scan", "usage")

    mode: Mode
    borrowing: int
    pod_sets: Sequence[PodSetResult]
    usage: dict[FlavorResource, int]
    scan: ScanState

    @property
    def message(self) -> str:
        """Kueue's text: `couldn't assign flavors to pod set main: ...`; '' when everything fits."""
        raise NotImplementedError

    @property
    def no_fit_reason(self) -> str:
        """The G6 reason when the mode is NO_FIT: NoMatchingFlavor, ExceedsMaxQuota, WaitingForQuota; else ''."""
        raise NotImplementedError

    def needs_preemption(self) -> set[FlavorResource]:
        """Return what needs preemption; a set for membership tests only, never to iterate."""
        raise NotImplementedError

    def pod_set_assignments(self) -> tuple[PodSetAssignment, ...]:
        """Return what QuotaReserved records: full usage, also for a slice."""
        raise NotImplementedError


def assign(
    world: World,
    workload: Workload,
    cq: ClusterQueue,
    oracle: Oracle,
    *,
    counts: Sequence[int] | None = None,
    scan: ScanState | None = None,
    replaced: Sequence[PodSetAssignment] | None = None,
    pinned: Pinned | None = None,
) -> Assignment:
    """Assign flavors to every pod set, against the usage that the tree has now.

    `counts`: pods per pod set, by position, instead of the full counts less reclaimable ones (SC7).
    `scan`: start after the flavors that an earlier attempt tried. `replaced`: assignment of the slice
    that this one replaces: same flavors, and only the difference is needed (WS3, WS5).
    """
    raise NotImplementedError


def pending_flavors(scan: ScanState | None) -> bool:
    """Did the scan stop before the last flavor, so that the workload should be tried again at once?"""
    return scan is not None and any(index != -1 for tried in scan for index in tried.values())
