"""Additions of a workload's checks to its pods (AC2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.api.kueue import PodSetUpdate
from sluice.events.checks import ChecksRequested, CheckStateChanged

from .admission_checks import READY


@dataclass(slots=True)
class Additions:
    """Those of one reservation. What is said of another one, or by a check that does not count, adds nothing.

    Whoever keeps them hears no more of them once the workload is admitted: they stay as they were then.
    """

    attempt: int = 0
    """Which reservation of the workload this is, as its checks count them."""
    by_check: dict[str, Sequence[PodSetUpdate]] = field(default_factory=dict)


def asked(before: Additions | None, event: ChecksRequested) -> Additions:
    """Return what is left of the additions by the checks that count from now on."""
    if before is None or before.attempt != event.attempt:
        return Additions(event.attempt)
    kept = {name: updates for name, updates in before.by_check.items() if name in event.checks}
    return Additions(event.attempt, kept)


def answered(found: Additions | None, event: CheckStateChanged) -> None:
    """Note what a check adds, or that it adds nothing any more."""
    if found is None or found.attempt != event.attempt:
        return
    if event.state == READY and event.pod_set_updates:
        found.by_check[event.check] = event.pod_set_updates
    else:
        found.by_check.pop(event.check, None)


def by_check(found: Additions | None) -> Mapping[str, Sequence[PodSetUpdate]]:
    return {} if found is None else found.by_check
