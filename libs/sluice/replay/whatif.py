"""What would have been (DB5): the log's inputs, played again in virtual time under other rules.

1. Recorded: what the log says.
2. Unchanged: the log is decided again step by step (`verify`). As long as everything comes out as it stands
   there, the re-run *is* the recorded run, in content and order.
3. Replayed: the same inputs, freely in virtual time, without changes: what deciding in no time at all makes
   of them. Changed: the same with the changes. The comparison of these two shows the change alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluice.events.base import Micros
from sluice.events.codec import decode_commit

from .changes import Changes, apply_changes
from .checking import Checked, check
from .inputs import Inputs, inputs_of
from .metrics import Collector
from .source import Source
from .states import Progress, deciders, unhurried
from .virtual import VirtualCell

Nominal = dict[tuple[str, str, str], int]


@dataclass
class Played:
    """One run and its numbers."""

    name: str
    collector: Collector
    numbers: dict[str, Any]
    covers_s: float = 0.0
    """Virtual seconds from the first input to the last event."""
    assumed: int = 0
    """Jobs that ran without a run time in the log: the median of the others was taken."""


def nominal_of(state: Any) -> Nominal:
    """Return (queue, flavor, resource) -> nominal quota."""
    return {
        (name, *fr): quota.nominal
        for name, cq in state.world.cluster_queues.items()
        for fr, quota in cq.node.quotas.items()
    }


def recorded(source: Source, nominal: Nominal, progress: Progress | None = None) -> Played:
    """Return what the log itself says."""
    collector, end = Collector(), 0
    with unhurried():
        for entries in source.read(1, None, ("slices", "scheduler")):
            for entry in entries:
                for step in decode_commit(entry.payload).steps:
                    collector.take(step.events, step.at)
                    end = max(end, step.at)
            if progress is not None and entries:
                progress(entries[-1].seq)
    span = (end - collector.begin) / 1e6 if collector.begin else 0.0
    return Played("recorded", collector, collector.report(end, nominal), span)


def play(
    name: str, inputs: Inputs, progress: Callable[[int], None] | None = None, tick_us: int = 0
) -> tuple[Played, VirtualCell]:
    """Play inputs in virtual time until nothing more happens."""
    cell = VirtualCell(inputs, tick_us=tick_us)
    with unhurried():
        cell.run(progress=progress)
    first: Micros = inputs.items[0].at if inputs.items else 0
    numbers = cell.collector.report(cell.now, nominal_of(cell.state))
    return Played(name, cell.collector, numbers, (cell.now - first) / 1e6, len(cell.assumed)), cell


@dataclass
class WhatIf:
    """The runs to compare; `reproduced`: per service, the check of the unchanged log."""

    runs: list[Played]
    reproduced: list[Checked]

    @property
    def same_decisions(self) -> bool | None:
        """Did the free re-run without changes decide as recorded, in content and order? None: no record.

        It goes on to the end of all jobs; what it decides after the record's end is not compared.
        """
        if len(self.runs) < 2 or self.runs[0].name != "recorded":
            return None
        before, after = (run.collector.decisions for run in self.runs[:2])
        return before == after[: len(before)]

    @property
    def identical(self) -> bool:
        return bool(self.reproduced) and all(c.divergence is None for c in self.reproduced)


def what_if(
    source: Source,
    changes: Changes,
    progress: Progress | None = None,
    *,
    inputs: Inputs | None = None,
    tick_us: int = 0,
) -> WhatIf:
    """Compare what was with what would have been.

    *inputs*: of a foreign trace, instead of the log's own jobs; then nothing was recorded.

    Raises:
        ChangeError: a change makes no sense; nothing was run.
    """
    foreign = inputs is not None
    given = inputs_of(source, None, progress) if inputs is None else inputs
    changed = apply_changes(given, changes) if changes else None
    replayed, cell = play("replayed", given, progress, tick_us)
    runs = [] if foreign else [recorded(source, nominal_of(cell.state), progress)]
    runs.append(replayed)
    if changed is not None:
        runs.append(play("changed", changed, progress, tick_us)[0])
        return WhatIf(runs, [])
    return WhatIf(runs, [] if foreign else [check(source, d, progress=progress) for d in deciders()])


__all__ = ["Played", "WhatIf", "nominal_of", "play", "recorded", "what_if"]
