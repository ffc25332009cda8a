"""The fold behind everything that people see: workloads, jobs and queues from the events of all writers.

    view = View()
    view.apply(event, seq, at)      # of every commit, in log order
    view.workloads["default/train"]

The api service answers queries from it, replay shows any moment of the past with it.
"""

from collections.abc import Callable
from typing import Any

from sluice.core.workload.variant_events import TRANSLATIONS
from sluice.events.base import Event, Micros
from sluice.events.scheduler import Admitted, QuotaReserved
from sluice.events.variants import VariantDeleted

from .fold.checks import CHECK_FOLDS
from .fold.config import CONFIG_FOLDS
from .fold.jobs import JOB_FOLDS
from .fold.totals import TOTAL_FOLDS
from .fold.variants import VARIANT_FOLDS
from .fold.waits import admitted, reserved
from .fold.workloads import WORKLOAD_FOLDS
from .state import State

_Fold = Callable[[State, Any, int, Micros], object]
_Count = Callable[[State, Any, Micros], None]

_WAITS: dict[type[Event], _Count] = {Admitted: admitted, QuotaReserved: reserved}
_FOLDS: dict[type[Event], _Fold] = {
    **CONFIG_FOLDS,
    **WORKLOAD_FOLDS,
    **JOB_FOLDS,
    **VARIANT_FOLDS,
    **CHECK_FOLDS,
}


def _counts(kind: type[Event]) -> tuple[_Count, ...]:
    """Return what is counted of an event, before it is folded."""
    return tuple(table[kind] for table in (TOTAL_FOLDS, _WAITS) if kind in table)


_TRANSLATIONS = {kind: same for kind, same in TRANSLATIONS.items() if kind is not VariantDeleted}
"""A variant that is deleted has to be counted first; its own fold does all that there is to do."""

_OF = {
    kind: (_TRANSLATIONS.get(kind), _counts(kind), _FOLDS.get(kind))
    for kind in {**TRANSLATIONS, **TOTAL_FOLDS, **_WAITS, **_FOLDS}
}


class View(State):
    """The state, and the fold. Read it; only `apply` changes it."""

    def apply(self, event: Event, seq: int, at: Micros) -> None:
        """Fold *event*, of the message at *seq*, decided at *at*. What no object is known for is ignored."""
        self.seq, self.at = seq, at
        found = _OF.get(type(event))
        if found is None:
            return
        finished = self.finished
        finished.folding = True
        try:
            self._fold(event, seq, at, *found)
            finished.pack()
        finally:
            finished.folding = False

    def _fold(
        self,
        event: Event,
        seq: int,
        at: Micros,
        translate: Callable[[Any], Event] | None,
        counts: tuple[_Count, ...],
        fold: _Fold | None,
    ) -> None:
        if translate is not None:
            # What is said of variants means what is said of other workloads.
            same = translate(event)
            _FOLDS[type(same)](self, same, seq, at)
        for count in counts:
            count(self, event, at)
        if fold is not None:
            fold(self, event, seq, at)
