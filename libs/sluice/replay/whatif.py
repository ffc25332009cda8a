"""What would have been (DB5): the log's inputs, played again in virtual time under other rules.

1. Recorded: what the log says.
2. Replayed: the same inputs, with the real deciders. Without changes they follow the log step by step to its
   end: each decision comes out as recorded, in content and order, and what had not ended then goes on in
   virtual time. With changes they follow it up to where the first change begins, and then run freely:
   what deciding in no time at all makes of the same inputs.
3. Changed: the same with the changes. It differs from the replayed run by the changes alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sluice.events.base import Micros
from sluice.events.codec import decode_commit

from . import forking
from .changes import Changes, apply_changes
from .checking import Checked
from .inputs import Inputs, inputs_of
from .metrics import Collector, Split
from .reach import Reach, reach_of
from .source import Source
from .states import LONG, Progress, unhurried
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
    guessed: int = 0
    """Workloads whose admission checks were not answered in the log: as others were, or as before."""
    now: Micros = 0
    """When it was over."""
    decisions: list[tuple[str, ...]] = field(init=False)
    """Those of the trees that were played anew, in order."""

    def __post_init__(self) -> None:
        self.decisions = self.collector.decisions


def nominal_of(state: Any) -> Nominal:
    """Return (queue, flavor, resource) -> nominal quota."""
    return {
        (name, *fr): quota.nominal
        for name, cq in state.world.cluster_queues.items()
        for fr, quota in cq.node.quotas.items()
    }


def recorded(source: Source, nominal: Nominal, progress: Progress | None = None) -> Played:
    """Return what the log itself says."""
    collector = Collector()
    end = _take(source, collector, progress)
    return Played("recorded", collector, collector.report(end, nominal), _span(collector, end))


def _take(source: Source, collector: Collector | Split, progress: Progress | None) -> Micros:
    """Give a log's events to *collector*; return the time of the last one."""
    end = 0
    with unhurried():
        for entries in source.read(1, None, ("slices", "variants", "scheduler")):
            for entry in entries:
                for step in decode_commit(entry.payload).steps:
                    collector.take(step.events, step.at)
                    end = max(end, step.at)
            if progress is not None and entries:
                progress(entries[-1].seq)
    return end


def _span(collector: Collector, end: Micros) -> float:
    return (end - collector.begin) / 1e6 if collector.begin else 0.0


@dataclass(frozen=True)
class Cut:
    """Up to where a log is followed: to a sequence, and to what was said before a time."""

    upto: int | None = None
    before: Micros | None = None


def play(
    name: str,
    inputs: Inputs,
    progress: Callable[[int], None] | None = None,
    tick_us: int = 0,
    *,
    source: Source | None = None,
    cut: Cut | None = None,
    reach: Reach | None = None,
) -> tuple[Played, VirtualCell]:
    """Play inputs in virtual time to the end of all jobs; with a cut, follow *source* up to there first.

    *reach*: play only what it reaches, and count nothing else.
    """
    split = None if reach is None else Split(reach.queue)
    if reach is not None:
        inputs = replace(inputs, items=list(reach.inputs(inputs)))
    cell = VirtualCell(inputs, split or Collector(), tick_us=tick_us, reach=reach)
    with unhurried():
        if source is not None and cut is not None:
            cell.follow(source, cut.upto, cut.before, progress)
        cell.run(progress=progress)
    first: Micros = inputs.items[0].at if inputs.items else 0
    collector = cell.collector.inside if isinstance(cell.collector, Split) else cell.collector
    numbers = collector.report(cell.now, nominal_of(cell.state))
    return Played(
        name, collector, numbers, (cell.now - first) / 1e6, len(cell.assumed), len(cell.guessed), cell.now
    ), cell


@dataclass
class WhatIf:
    """The runs to compare.

    `followed`: per service, what deciding the log again came to, as far as it was followed.
    """

    runs: list[Played]
    followed: list[Checked]
    reach: Reach | None = None
    """What was played anew: all else did as recorded. None: everything."""

    @property
    def common(self) -> int | None:
        """How many of the recorded decisions the replayed run has too, from the first on; None: no record.

        It goes on to the end of all jobs; what it decides after the record's end is not compared.
        """
        if len(self.runs) < 2 or self.runs[0].name != "recorded":
            return None
        before, after = (run.decisions for run in self.runs[:2])
        pairs = zip(before, after, strict=False)
        return next((n for n, pair in enumerate(pairs) if pair[0] != pair[1]), min(len(before), len(after)))

    @property
    def same_decisions(self) -> bool | None:
        """Did the re-run without changes decide as recorded, in content and order? None: no record."""
        common = self.common
        return None if common is None else common == len(self.runs[0].decisions)

    @property
    def reproduced(self) -> bool:
        """Did every step that was followed come out as it stands in the log?"""
        return all(c.divergence is None for c in self.followed)


@unhurried()
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
    cut = None if foreign else _cut(given, changed)
    reach = None
    if changed is not None and cut is not None and cut != Cut() and not tick_us:
        reach = reach_of(given, changed)
    works = [partial(_play, "replayed", given, tick_us, source, cut, reach)]
    if changed is not None:
        works.append(partial(_play, "changed", changed, tick_us, source, cut, reach))
    record = _Record(reach)

    def read() -> None:
        if not foreign:
            record.read(source)

    # None of them depends on another.
    apart = len(given.items) > LONG
    played = forking.each(works, progress, apart=apart, meanwhile=read)
    runs = [] if foreign else [record.played(played[0][1])]
    for run, nominal, _ in played:
        runs.append(run if reach is None else record.completed(run, nominal))
    return WhatIf(runs, [] if foreign else played[0][2], reach)


class _Record:
    """What the log says: of what is played anew, and of all else."""

    def __init__(self, reach: Reach | None) -> None:
        self._split = Split(_everywhere if reach is None else reach.queue)
        self._collector = Collector() if reach is None else self._split.inside
        self._partly = reach is not None
        self.end: Micros = 0

    def read(self, source: Source) -> None:
        self.end = _take(source, self._split if self._partly else self._collector, None)

    def played(self, nominal: Nominal) -> Played:
        """Return the record as a run."""
        found = self._joined(self._collector)
        run = Played("recorded", found, found.report(self.end, nominal), _span(found, self.end))
        run.decisions = self._collector.decisions
        return run

    def completed(self, run: Played, nominal: Nominal) -> Played:
        """Return a run of a part of the cell with all else as it was."""
        found, now = self._joined(run.collector), max(run.now, self.end)
        covers = max(run.covers_s, _span(found, self.end))
        numbers = found.report(now, nominal)
        full = replace(run, collector=found, numbers=numbers, covers_s=covers, now=now)
        full.decisions = run.decisions
        return full

    def _joined(self, part: Collector) -> Collector:
        if not self._partly:
            return part
        found = Collector()
        found.join(self._split.outside, self.end)
        found.join(part)
        return found


def _everywhere(_: str) -> bool:
    return True


def _play(
    name: str,
    inputs: Inputs,
    tick_us: int,
    source: Source,
    cut: Cut | None,
    reach: Reach | None,
    progress: Callable[[int], None] | None,
) -> tuple[Played, Nominal, list[Checked]]:
    played, cell = play(name, inputs, progress, tick_us, source=source, cut=cut, reach=reach)
    return played, nominal_of(cell.state), cell.followed()


def _cut(given: Inputs, changed: Inputs | None) -> Cut | None:
    """Return up to where the log can be followed: to where the inputs differ first."""
    if changed is None:
        return Cut()
    pairs = zip(given.items, changed.items, strict=False)
    index = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
    if index is None:
        index = min(len(given.items), len(changed.items))
        if index == max(len(given.items), len(changed.items)):
            return Cut()
    at = min(inputs.items[index].at for inputs in (given, changed) if index < len(inputs.items))
    seq = given.items[index].seq - 1 if index < len(given.items) else None
    return Cut(seq, at) if index else None


__all__ = ["Cut", "Played", "WhatIf", "nominal_of", "play", "recorded", "what_if"]
