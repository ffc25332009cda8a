"""Fold of the slice-aggregator: each event's change of its state.

`HANDLERS` says which events are folded; all others are of no concern.
"""

from .fold_inputs import INPUT_FOLDS
from .fold_own import OWN_FOLDS

HANDLERS = {**INPUT_FOLDS, **OWN_FOLDS}
