"""Invariants of any log (DB6), looked at event by event, in the order in which the deciders saw it.

    for violation in broken(source, ("quota", "one-variant")): ...

Each invariant is an `Observer` of the module of its subject: it hears of the events it asks for, right after
they were folded. Several share one fold (`watching`). Those that need another way to look (chains, whole
states) are in `lint`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sluice.core.checks.decider import AdmissionChecks
from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.core.variants.decider import VariantController
from sluice.log.decider import Decider
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress

from .charge_invariants import CHARGE_OBSERVERS
from .check_invariants import CHECK_OBSERVERS
from .edit_invariants import EDIT_OBSERVERS
from .family_invariants import FAMILY_OBSERVERS
from .idle_quota import IdleObserver
from .observer import Observer
from .preemption_circles import CircleObserver
from .preemption_invariants import PREEMPTION_OBSERVERS
from .quota_invariants import QUOTA_OBSERVERS, StateObserver, first_bad
from .slice_invariants import SLICE_OBSERVERS
from .turn_invariants import TURN_OBSERVERS
from .watching import Listener, Violation, Watched, violations_in

_KINDS: tuple[type[Observer], ...] = (
    *QUOTA_OBSERVERS,
    CircleObserver,
    IdleObserver,
    *CHECK_OBSERVERS,
    *EDIT_OBSERVERS,
    *CHARGE_OBSERVERS,
    *FAMILY_OBSERVERS,
    *TURN_OBSERVERS,
    *SLICE_OBSERVERS,
    *PREEMPTION_OBSERVERS,
)

OBSERVERS: Mapping[str, type[Observer]] = {kind.name: kind for kind in _KINDS}


def broken(source: Source, names: Iterable[str], progress: Progress | None = None) -> Iterator[Violation]:
    """Yield what breaks the named invariants of `OBSERVERS`, in order; one fold per decider."""
    wanted = list(names)
    for kind in (Scheduler, SliceAggregator, VariantController, AdmissionChecks):
        if any(OBSERVERS[name].decider is kind for name in wanted):
            yield from watch(source, kind(), wanted, Listener(), progress)


def watch(
    source: Source,
    decider: Decider[Any],
    names: Iterable[str],
    listener: Listener,
    progress: Progress | None = None,
) -> Iterator[Violation]:
    """Fold a log once, and yield what breaks those of the named invariants that are the decider's."""
    kinds = [OBSERVERS[name] for name in names]
    observers = [kind() for kind in kinds if isinstance(decider, kind.decider)]
    looks = next((o for o in observers if isinstance(o, StateObserver)), None)
    for violation in violations_in(source, Watched(decider, observers), listener, progress):
        if looks is None or violation.invariant != StateObserver.name:
            yield violation
        else:
            yield from first_bad(source, looks.good, violation)
