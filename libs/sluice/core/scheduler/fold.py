"""Fold of every event that the scheduler reads into its state. Nothing here decides anything.

Fields of the life-cycle are folded by `lifecycle.note`; quota, queues and verdicts in `fold_inputs` and
`fold_verdicts`. What frees capacity wakes the tree; what changes a workload moves it to where it now belongs.
"""

from sluice.core.workload.variant_events import as_workload_event
from sluice.events.base import Event, Micros

from .fold_inputs import INPUT_FOLDS
from .fold_own import VERDICT_FOLDS
from .state import SchedulerState

_HANDLERS = {**INPUT_FOLDS, **VERDICT_FOLDS}


def fold(state: SchedulerState, event: Event, seq: int, at: Micros) -> None:
    """Fold *event*, of the message *seq*, decided at *at*. Events of no concern change nothing."""
    if at > state.at:
        state.at = at
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(state, event, seq, at)
    elif (same := as_workload_event(event)) is not event:
        # What is said of variants means what is said of other workloads.
        fold(state, same, seq, at)


__all__ = ["fold"]
