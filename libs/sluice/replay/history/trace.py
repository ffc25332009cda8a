"""`trace`: the chain of causes of a message, back to where it began and on to the last consequence (DB1).

Each event names its cause. A message from outside cannot: what an executor reports of an attempt, and what a
controller says of a check, is linked to the commit that asked for it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS, job_of
from sluice.replay.simulate.executors import KINDS
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, tracked

from .causes import Happening, happenings

ASKING = ("JobResumed", "JobSuspended", "JobResized")
STRIDE = 4096
"""Messages read at a time on the way back."""


@dataclass
class Trace:
    """`causes`: from the first causes to the event; `consequences`: what came of it, with their depth."""

    causes: list[Happening]
    consequences: list[tuple[int, Happening]]
    cut: bool = False
    """There are earlier causes, which were left out."""


@dataclass
class _Asked:
    """Who was asked for an answer from outside, by which message."""

    of: dict[str, int] = field(default_factory=dict)

    def hear(self, happening: Happening) -> None:
        if happening.type in ASKING:
            self.of[happening.data["job"]] = happening.seq
        elif happening.type == "ChecksRequested":
            for check in happening.data["checks"]:
                self.of[f"{happening.data['workload']} {check}"] = happening.seq

    def linked(self, happening: Happening) -> Happening:
        """Return an answer from outside with what asked for it as its cause."""
        asked = self.of.get(answers(happening), 0)
        return replace(happening, cause=asked) if asked else happening


def answers(happening: Happening) -> str:
    """Return what a message from outside is an answer about, "" if it is none."""
    if happening.type in KINDS:
        return str(happening.data.get("job", ""))
    if happening.type == "CheckVerdict":
        return f"{happening.data.get('workload')} {happening.data.get('check')}"
    return ""


def trace(
    source: Source,
    seq: int,
    *,
    about: str = "",
    limit: int = 200,
    back: int = 200,
    progress: Progress | None = None,
) -> Trace:
    """Follow the causes of a message back to where they began, and on to what came of it.

    Of a commit that is a cause only what speaks of the same workloads and jobs is followed, if anything does.
    *about*: only what speaks of this workload, job or queue, where a message holds more. *limit*, *back*:
    most events on the way on, and on the way back before the message itself; the nearest ones are kept.
    """
    causes, cut = _causes(source, seq, about, back)
    asked = _Asked()
    for happening in causes:
        if happening.seq == seq:
            asked.hear(happening)
    depth = {seq: 0}
    found: list[tuple[int, Happening]] = []
    for entries in tracked(source.read(seq + 1), progress):
        for each in happenings(e for e in entries if _may_follow(e, depth, asked)):
            happening = asked.linked(each)
            if happening.cause in depth and speaks(happening, about):
                asked.hear(happening)
                level = depth[happening.cause] + 1
                depth.setdefault(happening.seq, level)
                found.append((level, happening))
                if len(found) >= limit:
                    return Trace(causes, found, cut)
    return Trace(causes, found, cut)


_CAUSE = re.compile(rb'"cause":(\d+)')


def _may_follow(entry: Entry, causes: Mapping[int, object], asked: _Asked) -> bool:
    """Tell whether it is worth decoding: most messages of a log have nothing to do with it."""
    if entry.suffix in COMMITS:
        return any(int(cause) in causes for cause in set(_CAUSE.findall(entry.payload)))
    return job_of(entry.suffix) in asked.of or (bool(asked.of) and entry.suffix.startswith("verdict."))


def _causes(source: Source, seq: int, about: str, limit: int) -> tuple[list[Happening], bool]:
    """Return what the message at *seq* comes from, itself included, in order; and whether there is more."""
    back = _Back(about, {seq: frozenset()})
    end = seq
    while end >= source.first and (back.wanted or back.open):
        if back.steps > limit:
            break
        if not back.open:
            end = max(back.wanted)
        start = max(source.first, end - STRIDE + 1)
        for entries in reversed(list(source.read(start, end))):
            for entry in reversed(entries):
                if back.steps <= limit:
                    back.take(entry)
        end = start - 1
        back.wanted = {one: about for one, about in back.wanted.items() if one <= end}
    before = [h for here in sorted(back.found) for h in back.found[here] if here < seq]
    return before[-limit:] + back.found.get(seq, []), len(before) > limit


@dataclass
class _Back:
    """On the way back through a log, once for all causes: a commit can have hundreds."""

    about: str
    wanted: dict[int, frozenset[str]]
    """Sequences of causes that were named, with the workloads and jobs that they brought something to."""
    open: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """What was answered from outside -> the answers, by sequence and index: who asked lies before them."""
    found: dict[int, list[Happening]] = field(default_factory=dict)
    steps: int = 0
    """Events found before the first message."""
    _marks: set[bytes] = field(default_factory=set)

    def take(self, entry: Entry) -> None:
        """Look at a message; they come with the last one first."""
        asks = bool(self.open) and entry.suffix in ("slices", "checks") and self._may_ask(entry)
        if not asks and entry.seq not in self.wanted:
            return
        here = list(happenings([entry]))
        if asks:
            self._link(entry.seq, here)
        if entry.seq in self.wanted:
            self._keep(entry.seq, here)

    def _may_ask(self, entry: Entry) -> bool:
        return not self._marks.isdisjoint(_NAMED.findall(entry.payload))

    def _link(self, seq: int, here: list[Happening]) -> None:
        asked = _Asked()
        for happening in here:
            asked.hear(happening)
        for what in [what for what in asked.of if what in self.open]:
            for place, index in self.open.pop(what):
                self.found[place][index] = asked.linked(self.found[place][index])
                self._want(seq, self.found[place][index])
        self._marks = {_mark(what) for what in self.open}

    def _keep(self, seq: int, here: list[Happening]) -> None:
        concerned = self.wanted.pop(seq)
        kept = [h for h in here if speaks(h, self.about)] or here
        if concerned:
            kept = [h for h in kept if not concerned.isdisjoint(_concerned(h))] or kept
        self.steps += len(kept) if self.found else 0
        self.found[seq] = kept
        for index, happening in enumerate(kept):
            if what := answers(happening):
                self.open.setdefault(what, []).append((seq, index))
                self._marks.add(_mark(what))
            elif 0 < happening.cause < seq:
                # A commit's causes lie before it, whatever a damaged log says.
                self._want(happening.cause, happening)

    def _want(self, seq: int, happening: Happening) -> None:
        self.wanted[seq] = self.wanted.get(seq, frozenset()) | _concerned(happening)


def _concerned(happening: Happening) -> frozenset[str]:
    """Return the workloads and jobs that it speaks of."""
    return happening.about() - {happening.data.get("clusterQueue"), happening.data.get("localQueue")}


_NAMED = re.compile(rb'"(?:job|workload)":"([^"]*)"')


def _mark(what: str) -> bytes:
    return what.partition(" ")[0].encode()


def speaks(happening: Happening, about: str) -> bool:
    """Tell whether it is about the thing, by key, name, or a workload's name that begins as its job's."""
    if not about:
        return True
    key = about if "/" in about else f"default/{about}"
    namespace, _, name = key.partition("/")
    stem = f"{namespace}/job-{name}-"
    return any(one in (about, key) or one.startswith(stem) for one in happening.about())


__all__ = ["trace"]
