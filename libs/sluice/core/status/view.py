"""The fold behind everything that people see: workloads, jobs and queues from the events of all writers.

    view = View()
    view.apply(event, seq, at)      # of every commit, in log order
    view.workloads["default/train"]

The api service answers queries from it, replay shows any moment of the past with it.
"""

from collections.abc import Callable
from typing import Any

from sluice.core.variant_events import as_workload_event
from sluice.events.base import Event, Micros
from sluice.events.scheduler import Admitted, QuotaReserved

from .fold_checks import CHECK_FOLDS
from .fold_config import CONFIG_FOLDS
from .fold_totals import TOTAL_FOLDS
from .fold_variants import VARIANT_FOLDS
from .fold_waits import admitted, reserved
from .fold_workloads import WORKLOAD_FOLDS
from .state import State

_WAITS: dict[type[Event], Callable[[State, Any, Micros], None]] = {
    Admitted: admitted,
    QuotaReserved: reserved,
}
_FOLDS = {**CONFIG_FOLDS, **WORKLOAD_FOLDS, **VARIANT_FOLDS, **CHECK_FOLDS}


class View(State):
    """The state, and the fold. Read it; only `apply` changes it."""

    def apply(self, event: Event, seq: int, at: Micros) -> None:
        """Fold *event*, of the message at *seq*, decided at *at*. What no object is known for is ignored."""
        self.seq = seq
        same = as_workload_event(event)
        if same is not event:
            # What is said of variants means what is said of other workloads.
            _FOLDS[type(same)](self, same, seq, at)
        counts = TOTAL_FOLDS.get(type(event))
        if counts is not None:
            counts(self, event, at)
        waits = _WAITS.get(type(event))
        if waits is not None:
            waits(self, event, at)
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(self, event, seq, at)


__all__ = ["View"]
