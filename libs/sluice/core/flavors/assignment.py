"""Result of flavor assignment: a flavor per resource and pod set, or why there is none.

Texts are built only when somebody asks: most assignments that fail are looked at by nobody twice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from sluice.api.quantity import format_value
from sluice.core.preemption.targets import Possibility
from sluice.core.quota.tree import FlavorResource
from sluice.core.workload.pending_reasons import (
    EXCEEDS_MAX_QUOTA,
    NO_MATCHING_FLAVOR,
    TOPOLOGY_PLACEMENT_FAILED,
    WAITING_FOR_QUOTA,
)
from sluice.core.world.inadmissible import constraints_in
from sluice.events.base import PodSetAssignment

ScanState = Sequence[Mapping[str, int]]
"""Per pod set, by position: resource -> index of the last flavor tried in its group; -1: all were tried.

Plain data, for an event. It holds for one spec of the workload and of its queue: drop it when either changes.
"""


class Mode(IntEnum):
    """How a flavor could be assigned, worst first."""

    NO_FIT = 0
    PREEMPT = 1
    """Possible by quota, after preemption; whether there are candidates is the preemption's to say."""
    FIT = 2


SEVERITY = ("", TOPOLOGY_PLACEMENT_FAILED, WAITING_FOR_QUOTA, EXCEEDS_MAX_QUOTA, NO_MATCHING_FLAVOR)
"""Reasons for which a flavor does not fit (G6); a later one outranks an earlier one."""
WAITING, EXCEEDS, NO_MATCH = 2, 3, 4

Detail = str | tuple[Any, ...]
"""A reason: its text, or a function and its arguments, to be called when the text is wanted."""


def text_of(detail: Detail) -> str:
    if isinstance(detail, str):
        return detail
    build: Callable[..., str] = detail[0]
    return build(*detail[1:])


def exceeds_text(
    fr: FlavorResource, assumed: int, request: int, most: int, what: str = "maximum capacity"
) -> str:
    flavor, resource = fr
    return (
        f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
        f"({format_value(resource, assumed)}) + current podset request ({format_value(resource, request)}) > "
        f"{what} ({format_value(resource, most)})"
    )


def nominal_exceeded_text(fr: FlavorResource, assumed: int, request: int, nominal: int) -> str:
    text = exceeds_text(fr, assumed, request, nominal, "nominal quota")
    return f"{text}, and the workload cannot borrow (cannot-borrow)"


def unused_text(fr: FlavorResource, more: int, constraint: str) -> str:
    flavor, resource = fr
    text = (
        f"insufficient unused quota for {resource} in flavor {flavor}, "
        f"{format_value(resource, more)} more needed"
    )
    return f"{text}{constraint}"


CANNOT_BORROW = ", and the workload cannot borrow (cannot-borrow)"
CANNOT_PREEMPT = ", and the workload cannot preempt (cannot-preempt)"


def probe_text(fr: FlavorResource, request: int, most: int) -> str:
    flavor, resource = fr
    return (
        f"insufficient quota for {resource} in flavor {flavor}, one pod per zero-count podset request "
        f"({format_value(resource, request)}) > maximum capacity ({format_value(resource, most)})"
    )


def slice_text(flavor: str, original: str) -> str:
    """WS5."""
    return f"could not assign {flavor} flavor since the original workload is assigned: {original}"


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


Look = tuple[str, int, int, Sequence[Detail], int]
"""One flavor that was looked at for one resource group: its name, granular mode (0 no fit, 1 + Possibility,
4 fit), borrowing height, what stands in the way, and the severity of that."""

Looks = Sequence[tuple[str, Sequence[str], Sequence[Look]]]
"""Per resource that started a search: its name, its group's flavors, and what was looked at."""


@dataclass(slots=True)
class PodSetResult:
    """One pod set: totals of all `count` pods, and the choice per resource (empty: none fits)."""

    name: str
    count: int
    requests: dict[str, int]
    flavors: dict[str, FlavorChoice] = field(default_factory=dict)
    details: Sequence[Detail] = ()
    severity: int = 0
    looks: Looks = ()
    whole: tuple[int, dict[str, int]] | None = None
    """Count and totals of a slice's pods with those that have nothing left to do: it is given all (WS3)."""

    @property
    def mode(self) -> Mode:
        if not self.details:
            return Mode.FIT
        return min((choice.mode for choice in self.flavors.values()), default=Mode.NO_FIT)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return what stands in the way, sorted; empty when everything fits."""
        return tuple(sorted(text_of(detail) for detail in self.details))

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Return the flavors that were looked at, by name, each with its worst outcome."""
        merged: dict[str, Attempt] = {}
        for resource, group, looks in self.looks:
            for look in looks:
                merged[look[0]] = _merge(merged.get(look[0]), look)
            seen = {look[0] for look in looks}
            for flavor in group if looks else ():
                if flavor in merged and flavor not in seen:
                    _does_not_provide(merged[flavor], resource)
        return tuple(merged[name] for name in sorted(merged))


def _merge(known: Attempt | None, look: Look) -> Attempt:
    flavor, granular, borrow, details, severity = look
    mode = Mode.FIT if granular == 4 else Mode.PREEMPT if granular else Mode.NO_FIT
    possibility = Possibility(granular - 1) if 0 < granular < 4 else None
    texts = [text_of(detail) for detail in details]
    reason = SEVERITY[severity]
    if known is None:
        return Attempt(flavor, mode, borrow, possibility, tuple(sorted({*texts})), reason)
    if known.possibility is not None and (possibility is None or known.possibility < possibility):
        possibility = known.possibility
    return Attempt(
        flavor,
        min(mode, known.mode),
        max(borrow, known.borrow),
        possibility,
        tuple(sorted({*texts, *known.reasons})),
        max(known.no_fit_reason, reason, key=SEVERITY.index),
    )


def _does_not_provide(attempt: Attempt, resource: str) -> None:
    attempt.mode = Mode.NO_FIT
    text = f"flavor {attempt.flavor} does not provide resource {resource}"
    attempt.reasons = tuple(sorted({*attempt.reasons, text}))
    attempt.no_fit_reason = SEVERITY[NO_MATCH]


class Assignment:
    """The outcome for a whole workload. A refusal is a value, not an exception."""

    __slots__ = ("_groups", "borrowing", "mode", "pod_sets", "scan", "usage", "whole")

    def __init__(self, groups: Sequence[Sequence[str]], usage: dict[FlavorResource, int]) -> None:
        self.mode = Mode.FIT
        """The worst of the pod sets; NO_FIT when there are none."""
        self.borrowing = 0
        """Height of the smallest cohort tree that has the quota; 0: the queue's own nominal quota."""
        self.pod_sets: list[PodSetResult] = []
        """Up to the first for which nothing fits."""
        self.usage = usage
        """What admission would charge: for a slice only the difference to the one it replaces (WS3), for a
        variant what it needs beyond its siblings (CA10)."""
        self.whole: dict[FlavorResource, int] | None = None
        """What a variant needs in all, if that is not its usage."""
        self.scan: list[dict[str, int]] = []
        self._groups = groups

    @property
    def message(self) -> str:
        """Kueue's text: `couldn't assign flavors to pod set main: ...`; '' when everything fits."""
        return "; ".join(
            f"couldn't assign flavors to pod set {result.name}: {', '.join(result.reasons)}"
            for result in self.pod_sets
            if result.details
        )

    @property
    def no_fit_reason(self) -> str:
        """The G6 reason when the mode is NO_FIT: NoMatchingFlavor, ExceedsMaxQuota, WaitingForQuota; else ''.

        Flavors of a group are alternatives: the mildest of their reasons counts. Groups and pod sets are
        all needed: the most severe counts.
        """
        if self.mode is not Mode.NO_FIT:
            return ""
        worst = 0
        for result in self.pod_sets:
            if result.mode is Mode.NO_FIT:
                worst = max(worst, self._severity(result))
        return SEVERITY[worst]

    @property
    def constraints(self) -> tuple[str, ...]:
        """Return which of its own constraints hold the workload up: cannot-borrow, cannot-preempt (AX4)."""
        return constraints_in(self.message)

    def blame_borrowing(self) -> None:
        """Say of what is short that the workload waits because it cannot borrow (AX4)."""
        for result in self.pod_sets:
            result.details = [
                (detail[0], *detail[1:-1], CANNOT_BORROW) if detail[0] is unused_text else detail
                for detail in result.details
            ]

    def _severity(self, result: PodSetResult) -> int:
        attempts = result.attempts
        if not attempts:
            return NO_MATCH
        mildest: dict[int, int] = {}
        for attempt in attempts:
            # A group in which a flavor could be had is not what the workload lacks.
            severity = SEVERITY.index(attempt.no_fit_reason) if attempt.mode is Mode.NO_FIT else 0
            for index, flavors in enumerate(self._groups):
                if attempt.flavor in flavors:
                    mildest[index] = min(severity, mildest.get(index, severity))
        return max(result.severity, *mildest.values(), 0)

    def needs_preemption(self) -> set[FlavorResource]:
        """Return what needs preemption; a set for membership tests only, never to iterate."""
        return {
            (choice.name, resource)
            for result in self.pod_sets
            for resource, choice in result.flavors.items()
            if choice.mode is Mode.PREEMPT
        }

    def pod_set_assignments(self) -> tuple[PodSetAssignment, ...]:
        """Return what QuotaReserved records: the full usage, for a slice too."""
        return tuple(map(_assigned, self.pod_sets))

    def pinned(self) -> dict[str, dict[str, str]]:
        """Return pod set name -> resource -> flavor, to hold a second look in the same cycle to it."""
        return {
            result.name: {resource: choice.name for resource, choice in result.flavors.items()}
            for result in self.pod_sets
        }


def _assigned(result: PodSetResult) -> PodSetAssignment:
    count, requests = result.whole or (result.count, result.requests)
    usage = {resource: requests[resource] for resource in result.flavors}
    if len(usage) < len(requests):
        # As Kueue does, also what has no flavor as the queue does not declare it (`IgnoreUndeclared`):
        # who compares the reservation with the job finds all that it asks for.
        usage |= {name: amount for name, amount in requests.items() if amount and name not in usage}
    return PodSetAssignment(
        name=result.name,
        count=count,
        flavors={resource: choice.name for resource, choice in result.flavors.items()},
        usage=usage,
    )


def pending_flavors(scan: ScanState | None) -> bool:
    """Did the scan stop before the last flavor, so that the workload should be tried again at once?"""
    return scan is not None and any(index != -1 for tried in scan for index in tried.values())


__all__ = ["Assignment", "Mode", "Possibility", "pending_flavors"]
