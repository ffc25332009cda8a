"""What tests ask of replay: runs of a what-if one at a time, and the cell at a moment."""

from sluice.core.workload.charges import gives_back
from sluice.log.cell import CellFold, CellState
from sluice.log.fold import Fold
from sluice.replay.simulate.inputs import Inputs, Kept, inputs_of
from sluice.replay.simulate.nominal_quota import as_configured
from sluice.replay.simulate.simulator import VirtualCell
from sluice.replay.simulate.what_if import (
    Cut,
    Played,
    _begun,
    _played,
    _Record,
    _whole,
)
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import fold_at


def recorded(source: Source) -> Played:
    """Return what the log itself says."""
    record = _Record(None, *as_configured(inputs_of(source).items))
    for _ in record.read(source, Kept(complete=False)):
        pass
    return record.played()


def play(inputs: Inputs, source: Source | None = None, cut: Cut | None = None) -> tuple[Played, VirtualCell]:
    """Play inputs in virtual time; with a cut, follow *source* up to there first."""
    configured, nominal = as_configured(inputs.items)
    ended = gives_back(configured.world.config)
    cell = _begun(inputs, None, source, cut, ended, None)
    portion = _played(cell, inputs, None, 0, ended, None)
    return _whole("free", inputs, [portion], None, nominal), cell


def cell_at(source: Source, seq: int) -> Fold[CellState]:
    """Return what people saw of the cell after *seq*."""
    return fold_at(source, CellFold(), seq)
