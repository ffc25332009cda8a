"""Fold of every event that the scheduler reads into its state. Nothing here decides anything.

What others say is folded by `fold_inputs` and `fold_config`, what the scheduler has decided by `fold_own`,
with the fields of the life-cycle by `lifecycle.fold`. They mark what they touch; `settle` looks at it once.
"""

from sluice.core.workload.variant_events import as_workload_event
from sluice.events.base import Event, Micros

from .fold_inputs import INPUT_FOLDS
from .fold_own import VERDICT_FOLDS
from .settle import settle
from .state import SchedulerState

_HANDLERS = {**INPUT_FOLDS, **VERDICT_FOLDS}


def fold(state: SchedulerState, event: Event, seq: int, at: Micros) -> None:
    """Fold *event*, of the message *seq*, decided at *at*. Events of no concern change nothing."""
    if at > state.at:
        state.at = at
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(state, event, seq, at)
        if state.touched or state.edited or state.moved:
            settle(state, at)
    elif (same := as_workload_event(event)) is not event:
        # What is said of variants means what is said of other workloads.
        fold(state, same, seq, at)
