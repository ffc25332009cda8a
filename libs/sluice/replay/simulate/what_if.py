"""Counterfactual runs (DB5): the log's inputs, played again in virtual time under other rules.

1. Recorded: what the log says.
2. Replayed: the same inputs, with the real deciders. Without changes they follow the log step by step to its
   end: each decision comes out as recorded, in content and order, and what had not ended then goes on in
   virtual time. With changes they follow it up to where the first change begins, and then run freely:
   services hear and decide as late as they did in the log, wherever it has anything alike.
3. Changed: the same with the changes. It differs from the replayed run by the changes alone.

The replayed run is the control of the changed one, and costs as much. Without it the record takes its place.

Cohort trees that the changes cannot reach are not played. The others are played apart, as none hears of
another, and then put together.

>>> from pathlib import Path
>>> from sluice.replay.simulate.changes import Changes, parse_setting
>>> from sluice.replay.source.source import FileSource
>>> change = parse_setting("ClusterQueue/serving.spec.preemption.reclaimWithinCohort=Never")
>>> found = what_if(FileSource(Path("incident.jsonl")), Changes(settings=[change]))
>>> [(run.name, sum(run.numbers["preemptions"].values())) for run in found.runs]
[('recorded', 2), ('replayed', 2), ('changed', 0)]
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any

from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.charges import gives_back
from sluice.events.base import Micros
from sluice.log.fold import steps_of
from sluice.log.runtime import process_pool
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, unhurried
from sluice.replay.verify.whole_log import Checked
from sluice.replay.views.queues import phase_of

from .affected_trees import Part, Reach, reach_of
from .changes import Changes, apply_changes
from .inputs import Inputs, Kept, inputs_of
from .metrics import Collector, Parted
from .nominal_quota import NominalQuota, as_configured
from .simulator import STALLED_US, VirtualCell

Decision = tuple[str, ...]

MANY = 1_000
"""Messages from outside from which on plays are worth a process each."""


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
    parts: Sequence[Sequence[Decision]] = ()
    """Decisions of each part that was played anew, in order."""
    decisions: Sequence[Decision] = ()
    """Those of all parts in order of time, and at the same moment in the order of parts."""
    cut_off: Mapping[str, str] | None = None
    """It would have gone on without end, and was ended: job -> where it stood, of those that had not ended.
    None: it came to an end."""

    def __post_init__(self) -> None:
        self.parts = self.parts or (self.collector.decisions,)
        self.decisions = self.decisions or self.collector.decisions


@dataclass(frozen=True)
class Cut:
    """Up to where a log is followed: to a sequence, and to what was said before a time."""

    upto: int | None = None
    before: Micros | None = None


@dataclass
class _Portion:
    """What the play of one part came to."""

    collector: Collector
    now: Micros
    assumed: int
    guessed: int
    followed: list[Checked]
    cut_off: Mapping[str, str] | None = None


def _begun(
    inputs: Inputs,
    reach: Reach | None,
    source: Source | None,
    cut: Cut | None,
    ended: bool,
    progress: Progress | None,
) -> VirtualCell:
    """Return a cell that has followed the log up to the cut, if there is one. *ended*: see `_played`."""
    collector = Collector() if reach is None else Parted([part.queue for part in reach.parts])
    collector.gives_back = ended
    cell = VirtualCell(inputs, collector)
    if source is not None and cut is not None:
        with unhurried():
            cell.follow(source, cut.upto, cut.before, progress)
    return cell


def _played(
    cell: VirtualCell,
    inputs: Inputs,
    part: Part | None,
    number: int,
    ended: bool,
    progress: Progress | None,
) -> _Portion:
    """Let the cell go on with the inputs of a part, or all, to the end of all jobs.

    *ended*: do pods that have ended give their quota back?
    """
    if part is not None:
        inputs = inputs.only(part.inputs(inputs))
    cell.collector.gives_back = ended
    cell.take_over(inputs, part)
    with unhurried():
        cell.run(progress=progress)
    collector = cell.collector.parts[number] if isinstance(cell.collector, Parted) else cell.collector
    waiting = _waiting(cell.state, part) if cell.cut_off else None
    return _Portion(collector, cell.now, len(cell.assumed), len(cell.guessed), cell.followed(), waiting)


def _waiting(state: SchedulerState, part: Part | None) -> dict[str, str]:
    """Return job -> phase, and the reason of its status if it is pending, of all that have not ended."""
    found: dict[str, str] = {}
    for key, workload in sorted(state.world.workloads.items()):
        job = workload.record.job
        if workload.finished or workload.record.parent is not None:
            continue
        if part is not None and (job is None or not part.job(job.key)):
            continue
        phase = phase_of(workload)
        reason = workload.peers.reason if phase == "Pending" and workload.peers is not None else ""
        found[key if job is None else job.key] = f"{phase}: {reason}" if reason else phase
    return found


def _whole(
    name: str, inputs: Inputs, portions: Sequence[_Portion], record: "_Record | None", nominal: NominalQuota
) -> Played:
    """Return the parts of a run as one, with all that was not played as it was."""
    first: Micros = inputs.items[0].at if inputs.items else 0
    now = max(portion.now for portion in portions)
    collectors = [portion.collector for portion in portions]
    found = collectors[0]
    if record is not None:
        now = max(now, record.end)
        found = record.joined(collectors)
    # In order of time, then of parts: what has one moment in two trees depends on neither.
    decided = [zip(c.moments, repeat(n), c.decisions, strict=False) for n, c in enumerate(collectors)]
    merged = heapq.merge(*decided, key=lambda decided: decided[:2])
    return Played(
        name,
        found,
        found.report(now, nominal),
        (now - first) / 1e6 if first else 0.0,
        sum(portion.assumed for portion in portions),
        sum(portion.guessed for portion in portions),
        now,
        [collector.decisions for collector in collectors],
        [decision for _, _, decision in merged],
        _joined([portion.cut_off for portion in portions]),
    )


def _joined(cut_off: Sequence[Mapping[str, str] | None]) -> dict[str, str] | None:
    """Return what waits in any part that was ended; None if none was."""
    ended = [waiting for waiting in cut_off if waiting is not None]
    return {job: where for waiting in ended for job, where in waiting.items()} if ended else None


@dataclass
class WhatIf:
    """The runs to compare.

    `followed`: per service, what deciding the log again came to, as far as it was followed.
    """

    runs: list[Played]
    followed: list[Checked]
    reach: Reach | None = None
    """What was played anew, in which parts: all else did as recorded. None: everything, in one."""
    changes_nothing: bool = False
    """There were changes, and the inputs are the same with them."""

    @property
    def common(self) -> int | None:
        """How many of the recorded decisions the replayed run has too; None: no record.

        Counted up to the first that differs, in each part. The run goes on to the end of all jobs; what it
        decides after the record's end is not compared.
        """
        if [run.name for run in self.runs[:2]] != ["recorded", "replayed"]:
            return None
        before, after = (run.parts for run in self.runs[:2])
        return sum(map(_in_common, before, after))

    @property
    def same_decisions(self) -> bool | None:
        """Did the re-run without changes decide as recorded, in content and order? None: no record."""
        common = self.common
        return None if common is None else common == len(self.runs[0].decisions)

    @property
    def reproduced(self) -> bool:
        """Did every step that was followed come out as it stands in the log?"""
        return all(c.divergence is None for c in self.followed)


def _in_common(before: Sequence[Decision], after: Sequence[Decision]) -> int:
    pairs = zip(before, after, strict=False)
    return next((n for n, pair in enumerate(pairs) if pair[0] != pair[1]), min(len(before), len(after)))


@unhurried()
def what_if(
    source: Source,
    changes: Changes,
    progress: Progress | None = None,
    *,
    inputs: Inputs | None = None,
    control: bool = True,
) -> WhatIf:
    """Compare what was with what would have been.

    *inputs*: of a foreign trace, instead of the log's own jobs; then nothing was recorded.
    *control*: replay without the changes, too; else only what was recorded stands beside them.

    Raises:
        ChangeError: a change makes no sense; nothing was run.
    """
    foreign = inputs is not None
    kept = Kept()
    given = inputs_of(source, None, progress, kept) if inputs is None else inputs
    changed = apply_changes(given, changes) if changes else None
    wanted = {"replayed": given} if control or changed is None else {}
    if changed is not None:
        wanted["changed"] = changed
    cut = None if foreign else _cut(given, changed)
    reach = None
    if changed is not None and not foreign and cut != Cut():
        reach = reach_of(given, changed)
    settings = {name: as_configured(inputs.items) for name, inputs in wanted.items()}
    as_it_was, quota_then = settings.get("replayed") or as_configured(given.items)
    begin = partial(_begun, given, reach, source, cut, gives_back(as_it_was.world.config))
    parts: Sequence[Part | None] = (None,) if reach is None else reach.parts
    apart = process_pool.AVAILABLE and len(given.items) > MANY
    if apart and len(wanted) * len(parts) > 1:
        # What is followed is the same for all, and done once; each goes on in a copy of this process.
        cell = begin(progress)
        begin = partial(_here, cell)
    works = [
        partial(_go_on, begin, inputs, part, number, gives_back(settings[name][0].world.config))
        for name, inputs in wanted.items()
        for number, part in enumerate(parts)
    ]
    record = _Record(reach, as_it_was, quota_then)
    reading = None if foreign else record.read(source, kept)
    portions = iter(
        process_pool.each(works, progress, apart=apart, meanwhile=reading, at_once=process_pool.processors())
    )
    runs = [] if foreign else [record.played()]
    followed: list[Checked] = []
    for name, inputs in wanted.items():
        own = [next(portions) for _ in parts]
        runs.append(_whole(name, inputs, own, None if reach is None else record, settings[name][1]))
        followed = followed or own[0].followed
    idle = changed is not None and given.items == changed.items
    return WhatIf(runs, [] if foreign else followed, reach, idle)


def _here(cell: VirtualCell, _: Progress | None) -> VirtualCell:
    return cell


def _go_on(
    begin: Callable[[Progress | None], VirtualCell],
    inputs: Inputs,
    part: Part | None,
    number: int,
    ended: bool,
    progress: Progress | None,
) -> _Portion:
    return _played(begin(progress), inputs, part, number, ended, progress)


class _Record:
    """What the log says: of what is played anew, and of all else."""

    def __init__(self, reach: Reach | None, as_it_was: SchedulerState, nominal: NominalQuota) -> None:
        self._parted = None if reach is None else Parted([part.queue for part in reach.parts])
        self._collector = Collector()
        (self._parted or self._collector).gives_back = gives_back(as_it_was.world.config)
        self._nominal = nominal
        self.end: Micros = 0

    def read(self, source: Source, kept: Kept) -> Iterator[None]:
        """Take in the whole log, in steps."""
        collector = self._parted or self._collector
        for entries in kept.read(source, ("slices", "variants", "scheduler")):
            for entry in entries:
                for step in steps_of(entry):
                    collector.take(step.events, step.at)
                    self.end = max(self.end, step.at)
            yield
        if self._parted is not None:
            self._parted.rest.close(self.end, self._nominal)

    def played(self) -> Played:
        """Return the record as a run."""
        parted = self._parted
        found = self._collector if parted is None else self.joined(parted.parts)
        numbers = found.report(self.end, self._nominal)
        run = Played("recorded", found, numbers, (self.end - found.begin) / 1e6 if found.begin else 0.0)
        if parted is not None:
            run.parts, run.decisions = [part.decisions for part in parted.parts], parted.decisions
        return run

    def joined(self, parts: Sequence[Collector]) -> Collector:
        """Return the parts with what the log says of all else."""
        found = Collector()
        for part in chain((self._parted.rest,) if self._parted is not None else (), parts):
            found.join(part)
        return found


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


__all__ = [
    "STALLED_US",
    "Cut",
    "Decision",
    "Played",
    "WhatIf",
    "what_if",
]
