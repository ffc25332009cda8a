"""What the simulator reaches: branches of the core (by `sys.monitoring`), events, events after faults.

What is never reached is a gap: in the grammar, in the faults, or code that nobody needs.
"""

import dis
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import sluice.core
from sluice.events.catalogue import EVENTS

from .log import steps_of
from .run import Outcome, Run

CORE = str(Path(sluice.core.__file__).parent)
TOOL = sys.monitoring.COVERAGE_ID
NEAR = 3
"""A fault and an event are a pair when so few messages lie between them."""

OLD = frozenset({"PreemptionWaitEnded"})
"""Events that are read in logs of earlier versions only."""

Way = tuple[str, str, int, int]
"""File, function, place of the branch, and where it went."""


class Branches:
    """Notes each way that a branch of the core went, once; a branch that went both ways is left alone."""

    def __init__(self) -> None:
        self._entered: dict[int, CodeType] = {}
        """By identity: a code object's own hash reads all of it."""
        self._went: dict[tuple[int, int], tuple[int, ...]] = {}
        """(identity of the code, place of the branch) -> where it went."""

    def __enter__(self) -> "Branches":
        monitoring = sys.monitoring
        monitoring.use_tool_id(TOOL, "simulation")
        monitoring.register_callback(TOOL, monitoring.events.PY_START, self._start)
        monitoring.register_callback(TOOL, monitoring.events.BRANCH, self._branch)
        monitoring.set_events(TOOL, monitoring.events.PY_START)
        monitoring.restart_events()
        return self

    def __exit__(self, *_: object) -> None:
        sys.monitoring.set_events(TOOL, 0)
        for code in self._entered.values():
            sys.monitoring.set_local_events(TOOL, code, 0)
        sys.monitoring.free_tool_id(TOOL)

    def _start(self, code: CodeType, _offset: int) -> Any:
        if code.co_filename.startswith(CORE):
            self._entered[id(code)] = code
            sys.monitoring.set_local_events(TOOL, code, sys.monitoring.events.BRANCH)
        return sys.monitoring.DISABLE

    def _branch(self, code: CodeType, offset: int, destination: int) -> Any:
        branch = (id(code), offset)
        went = self._went.get(branch, ())
        if destination not in went:
            self._went[branch] = went = (*went, destination)
        return sys.monitoring.DISABLE if len(went) > 1 else None

    def ways(self) -> set[Way]:
        """Return the ways taken, by names that hold in other processes, too."""
        found: set[Way] = set()
        for (identity, offset), went in self._went.items():
            code = self._entered[identity]
            found.update((code.co_filename, code.co_qualname, offset, to) for to in went)
        return found


def _branches(code: CodeType) -> Iterator[tuple[str, int]]:
    """Yield the places in a module where the way can fork."""
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(("POP_JUMP_IF", "FOR_ITER")):
            yield code.co_qualname, instruction.offset
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _branches(constant)


def pairs(run: Run) -> Counter[tuple[str, str]]:
    """Return how often an event of each type came soon after a fault of each kind."""
    found: Counter[tuple[str, str]] = Counter()
    faults = run.cell.stats.fault_at
    at = 0
    recent: list[tuple[int, str]] = []
    for entry in run.cell.log.entries:
        while at < len(faults) and faults[at][0] <= entry.seq:
            recent.append(faults[at])
            at += 1
        recent = [fault for fault in recent if entry.seq - fault[0] <= NEAR]
        if recent and "." not in entry.suffix:
            for step in steps_of(entry):
                for event in step.events:
                    found.update((type(event).__name__, name) for _, name in recent)
    return found


@dataclass
class Coverage:
    """What runs have reached."""

    seen: Counter[str] = field(default_factory=Counter)
    """Events."""
    near: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Events soon after faults."""
    faults: Counter[str] = field(default_factory=Counter)
    ways: set[Way] = field(default_factory=set)
    """Of the core's branches."""

    def add(self, run: Run, outcome: Outcome) -> None:
        self.faults.update(outcome.faults)
        cell = getattr(run, "cell", None)
        if cell is None:
            return
        self.near.update(pairs(run))
        for entry in cell.log.entries:
            if "." not in entry.suffix:
                self.seen.update(type(event).__name__ for step in steps_of(entry) for event in step.events)

    def update(self, other: "Coverage") -> None:
        self.seen.update(other.seen)
        self.near.update(other.near)
        self.faults.update(other.faults)
        self.ways |= other.ways

    def by_file(self) -> Iterator[tuple[str, int, int, list[str]]]:
        """Yield (module, branch ways taken, of how many, functions that were never entered)."""
        entered: dict[str, set[str]] = {}
        ways: Counter[str] = Counter()
        for name, function, _, _ in self.ways:
            entered.setdefault(name, set()).add(function)
            ways[name] += 1
        for path in sorted(Path(CORE).rglob("*.py")):
            places = list(_branches(compile(path.read_text(), str(path), "exec")))
            names = {function for function, _ in places}
            never = sorted(names - entered.get(str(path), set()))
            if places:
                yield str(path.relative_to(CORE)), ways[str(path)], 2 * len(places), never

    def lines(self) -> Iterator[str]:
        """Yield the tables line by line."""
        rows = list(self.by_file()) if self.ways else []
        taken, ways = sum(row[1] for row in rows), sum(row[2] for row in rows)
        if rows:
            yield f"branches of the core: {taken} of about {ways} ways ({taken / ways:.0%})"
        for module, went, of, never in rows:
            yield f"  {module:<28} {went:>5} of {of:>5} {went / of:>5.0%}  {', '.join(never)}"
        yield ""
        seen, kinds = self.seen, sorted(kind for kind in EVENTS if kind not in OLD)
        yield f"events: {sum(1 for kind in kinds if seen[kind])} of {len(kinds)}"
        yield "  " + ", ".join(f"{kind} {seen[kind]}" for kind in sorted(seen, key=lambda k: -seen[k]))
        yield "  never: " + (", ".join(kind for kind in kinds if not seen[kind]) or "none")
        yield ""
        possible = len(self.faults) * sum(1 for kind in kinds if seen[kind])
        yield f"event soon after fault: {len(self.near)} of {possible} pairs"
        for fault in sorted(self.faults):
            reached = sum(1 for kind, name in self.near if name == fault)
            yield f"  {fault:<18} {self.faults[fault]:>6} times, {reached} events after it"


def report(seeds: Sequence[int], steps: int) -> Iterator[str]:
    """Play *seeds*, and yield the tables line by line."""
    found = Coverage()
    with Branches() as branches:
        for seed in seeds:
            run = Run(seed, steps)
            found.add(run, run.play())
    found.ways = branches.ways()
    yield f"{len(seeds)} seeds of {steps} steps"
    yield ""
    yield from found.lines()


__all__ = ["Branches", "Coverage", "pairs", "report"]
