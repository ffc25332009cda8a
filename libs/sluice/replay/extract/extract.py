"""Cutting a log down to a namespace, or to the least that one workload's history depends on.

found = Extract(source, Closure(source, "train"))
found.read()                        # what lies in the workload's cohort tree, up to the workload's end
entries = found.cut()               # the least of it that was found to bring about the same history
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from sluice.events.base import Event
from sluice.events.commit import Step
from sluice.events.scheduler import QuotaReserved, WorkloadSliceReplaced
from sluice.events.slices import WorkloadCreated, WorkloadDeleted, WorkloadFinished
from sluice.log.contract import Entry
from sluice.log.fold import steps_of
from sluice.log.runtime import process_pool
from sluice.protocol.subjects import COMMITS, job_of
from sluice.replay.source.partial_decode import Bare
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, tracked, unhurried

from .dependency_closure import Closure
from .excerpt import (
    Line,
    Played,
    Unit,
    commit_line,
    concerning,
    digest,
    entry_of,
    input_line,
    play,
    speaks,
    without,
)

WORK = 200_000
"""Messages heard and events decided in smaller logs that are tried, at most ..."""
TIMES = 2
"""... or so many times what the whole tree has, if that is more."""

APART = 2_000
"""Messages from which on each try is worth a process of its own."""

_NEVER = 1 << 62

Work = Callable[[Progress | None], Played]


class Extract:
    """The least log that was found with the same history of one workload."""

    def __init__(self, source: Source, closure: Closure) -> None:
        self.source, self.closure = source, closure
        self.exact = True
        """The history is the recorded one; else this code decides otherwise than what wrote the log."""
        self.tries = 0
        """Logs that were decided."""
        self.ended_early = False
        """The bound of work was met: perhaps more could be left out."""
        self.messages = 0
        """Of the whole log."""
        self.tree = 1
        """Messages and events of the tree, up to the workload's end."""
        self._cell = source.header.cell
        self._own, self._everybody = closure.own(), closure.everybody()
        self._lines: list[Line] = []
        self._life = _Life()
        self._history: dict[int, bytes] = {}
        """What is said about the workload, and ..."""
        self._recorded: dict[int, bytes] = {}
        """... about anybody in its tree."""
        self._events: dict[int, int] = {}
        """Commit -> how many events about the tree it has."""
        self._reserved: dict[str, int] = {}
        """Job -> where it had quota first."""
        self._work = 0
        self._least = 1
        """Work of the least log so far."""
        self._progress: Progress | None = None

    @property
    def bound(self) -> int:
        """Work after which no more is tried; known after `read`."""
        return self.tree + max(WORK, TIMES * self.tree)

    @property
    def length(self) -> int:
        """What the progress of `cut` counts to: all its work."""
        return self.bound + self.tree

    def read(self, progress: Progress | None = None) -> None:
        """Read what lies in the tree, up to the end of a workload that is over; a live one depends on all."""
        with unhurried():
            for entries in tracked(self.source.read(), progress):
                self.messages += len(entries)
                for entry in entries:
                    self._read(entry)
        last = self._life.end
        self._lines = [line for line in self._lines if line.seq <= last]
        self.tree = max(1, sum(len(line.units) for line in self._lines))
        self.tree += sum(count for seq, count in self._events.items() if seq <= last)

    @property
    def jobs(self) -> int:
        """Jobs that are left."""
        return len({unit for line in self._lines for unit in line.units if unit[0] == "job"})

    def _read(self, entry: Entry) -> None:
        if entry.suffix not in COMMITS or entry.suffix == "config":
            line = input_line(entry, self.closure, self._cell)
            if line is not None:
                self._lines.append(line)
                if ("job", self.closure.job) in line.units:
                    self._life.hear(entry.seq)
            return
        steps = steps_of(entry)
        self._lines.append(commit_line(entry, steps))
        told = concerning(steps, self._everybody)
        if not told:
            return
        self._recorded[entry.seq] = digest(told, self._everybody)
        self._events[entry.seq] = len(told)
        for event in told:
            if type(event) is QuotaReserved:
                self._reserved.setdefault(self.closure.job_of.get(event.workload, ""), entry.seq)
        own = [event for event in told if speaks(event, self._own)]
        if own:
            self._history[entry.seq] = digest(own, self._own)
            self._life.take(entry.seq, own)

    def cut(self, progress: Progress | None = None) -> list[Entry]:
        """Find it; *progress* is told how much of `length` is done.

        1. Decide the whole tree again: everybody's history must be the recorded one.
        2. Leave out those who were over before the workload came, and those who got nothing before it did.
        3. Leave out what else is not needed, half by half and then one by one, as long as every event about
           the workload stays as it is; then the same of what was found.
        """
        self._progress = progress
        if not self._lines:
            self.read()
        if not self._begin():
            return self._as_written()
        self._leave_any()
        more = True
        while more and not self.ended_early:
            self._settle()
            more = self._leave_any()
        return self._written()

    def _begin(self) -> bool:
        """Decide all of it, and the boldest guesses; returns whether it comes out as recorded."""
        units = self._units()
        early = [unit for unit in units if self.closure.finished.get(unit[1], _NEVER) < self._life.began]
        late = [unit for unit in units if unit[0] == "job" and self._started(unit) > self._life.started]
        guesses = [guess for guess in (units, early + late) if guess]
        whole, *others = self._side_by_side(
            [partial(play, self._lines, self._recorded, self._everybody), *map(self._attempt, guesses)]
        )
        self.exact = whole.same
        self._count(whole)
        self._least = whole.work
        if self.exact and self._take_first(guesses, others) is None and early and late:
            self._first([early, late])
        return self.exact

    def _leave_any(self) -> bool:
        """Leave out pieces, smaller and smaller ones, until nothing more can be left out; tell if any was."""
        units = self._units()
        whole = len(units)
        size = max(1, len(units) // 2)
        while units:
            start, before = 0, len(units)
            while start < len(units):
                pieces = [units[at : at + size] for at in range(start, len(units), size)]
                found = self._first(pieces)
                if self.ended_early:
                    break
                if found is None:
                    break
                start += found * size
                del units[start : start + size]
            if self.ended_early or (size == 1 and len(units) == before):
                break
            size = max(1, size // 2)
        return len(units) < whole

    def _settle(self) -> None:
        """Go on from the log that was found: nobody decides at moments at which nothing is said there."""
        found: list[Line] = []

        def write(line: Line, steps: Sequence[Step]) -> None:
            turns = [Bare(step.upto, step.at) for step in steps]
            found.append(line._replace(turns=turns) if steps else line)

        self._count(play(self._lines, self._history, self._own, write=write))
        self._lines = found

    def _first(self, candidates: Sequence[Sequence[Unit]]) -> int | None:
        """Leave out the first of *candidates* without which the history stays; returns its index.

        As many are tried at once as there are processors; what comes of it is the same for any number.
        """
        at_once = process_pool.processors() if self._apart else 1
        for start in range(0, len(candidates), at_once):
            batch = candidates[start : start + at_once]
            found = self._take_first(batch, self._side_by_side([self._attempt(units) for units in batch]))
            if found is not None:
                return start + found
            if self.ended_early:
                break
        return None

    def _take_first(self, candidates: Sequence[Sequence[Unit]], outcomes: Sequence[Played]) -> int | None:
        for index, (units, played) in enumerate(zip(candidates, outcomes, strict=True)):
            self.ended_early = self._work >= self.bound
            if self.ended_early:
                return None
            self._count(played)
            if played.same:
                self._lines = without(self._lines, units, self._cell)
                self._least = played.work
                return index
        return None

    def _count(self, played: Played) -> None:
        self.tries += 1
        self._work += played.work

    def _attempt(self, units: Sequence[Unit]) -> Work:
        def work(progress: Progress | None) -> Played:
            lines = without(self._lines, units, self._cell)
            return play(lines, self._history, self._own, progress=progress)

        return work

    @property
    def _apart(self) -> bool:
        return process_pool.AVAILABLE and len(self._lines) >= APART

    def _side_by_side(self, works: Sequence[Work]) -> list[Played]:
        """Do tries, in a process each if they are long."""

        def show(work: int) -> None:
            if self._progress is not None:
                self._progress(min(self._work + work, self.bound))

        if self._apart:
            return process_pool.side_by_side(works, show, at_once=process_pool.processors())
        return [work(show) for work in works]

    def _units(self) -> list[Unit]:
        """Return what may be left out; first the jobs, those who had quota last, or never, before others."""
        found: dict[Unit, None] = {}
        for line in self._lines:
            found.update(dict.fromkeys(line.units))
        found.pop(("job", self.closure.job), None)
        newest = list(reversed(found))
        return sorted(newest, key=lambda unit: (unit[0] != "job", -self._started(unit)))

    def _started(self, unit: Unit) -> int:
        return self._reserved.get(unit[1], _NEVER)

    def _written(self) -> list[Entry]:
        """Return what is left, decided once more."""
        found: list[Entry] = []

        def write(line: Line, steps: Sequence[Step]) -> None:
            found.append(entry_of(line, steps, self._cell))

        def show(work: int) -> None:
            if self._progress is not None:
                self._progress(self.bound + self.tree * work // self._least)

        with unhurried():
            play(self._lines, self._history, self._own, show, write=write)
        return found

    def _as_written(self) -> list[Entry]:
        """Return the tree with all commits as they are."""
        inputs = iter([entry_of(line, (), self._cell) for line in self._lines if not line.turns])
        found: list[Entry] = []
        held = next(inputs, None)
        for entries in self.source.read(1, min(self._life.end, self.source.end)):
            for entry in entries:
                if held is not None and entry.seq == held.seq:
                    found.append(held)
                    held = next(inputs, None)
                elif entry.suffix in COMMITS and entry.suffix != "config":
                    found.append(entry)
        return found


class _Life:
    """When the workload, or its job, came, and whether and when it was over."""

    def __init__(self) -> None:
        self.began = self.started = _NEVER
        """Its first message, and where it last got quota."""
        self._last = 0
        self._live: dict[str, None] = {}
        self._lived = False

    @property
    def end(self) -> int:
        """The last sequence that can matter."""
        return self._last if self._lived and not self._live else _NEVER

    def hear(self, seq: int) -> None:
        self.began = min(self.began, seq)
        self._last = seq

    def take(self, seq: int, events: Iterable[Event]) -> None:
        self.hear(seq)
        for event in events:
            match event:
                case WorkloadCreated(workload=record):
                    self._live[record.key] = None
                    self._lived = True
                case QuotaReserved():
                    self.started = seq
                case WorkloadFinished() | WorkloadDeleted() | WorkloadSliceReplaced():
                    self._live.pop(event.workload, None)
                case _:
                    pass


def other_namespaces(namespace: str) -> Callable[[Entry], bool]:
    """Return a filter that keeps the jobs of one namespace, and everything that is no job's."""

    def keeps(entry: Entry) -> bool:
        job = job_of(entry.suffix)
        return job is None or job.startswith(f"{namespace}/")

    return keeps


def only(source: Source, keeps: Callable[[Entry], bool], start: int, until: int) -> Iterator[list[Entry]]:
    """Yield the entries that are kept."""
    for entries in source.read(start, until):
        yield [entry for entry in entries if keeps(entry)]


__all__ = ["Extract", "only", "other_namespaces"]
