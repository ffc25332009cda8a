"""`trace`: the chain of causes of a message, back to where it began and on to the last consequence (DB1).

Each event names its cause. A message from outside cannot: what an executor reports of an attempt, and what a
controller says of a check, is linked to the commit that asked for it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sluice.core.slices_intake import job_of
from sluice.log.contract import Entry
from sluice.log.subjects import COMMITS

from .causes import Happening, happenings
from .executors import KINDS
from .source import Source
from .states import Progress

ASKING = ("JobResumed", "JobSuspended", "JobResized")
STRIDE = 4096
"""Messages read at a time on the way back."""


@dataclass
class Trace:
    """`causes`: from the first causes to the event; `consequences`: what came of it, with their depth."""

    causes: list[Happening]
    consequences: list[tuple[int, Happening]]


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
    source: Source, seq: int, *, about: str = "", limit: int = 200, progress: Progress | None = None
) -> Trace:
    """Follow the causes of a message back to where they began, and on to what came of it.

    A commit may hold events with several causes; all are followed. *about*: only what speaks of this
    workload, job or queue, where a message holds more.
    """
    causes = _causes(source, seq, about)
    asked = _Asked()
    for happening in causes:
        if happening.seq == seq:
            asked.hear(happening)
    depth = {seq: 0}
    found: list[tuple[int, Happening]] = []
    for entries in source.read(seq + 1):
        for each in happenings(e for e in entries if _may_follow(e, depth, asked)):
            happening = asked.linked(each)
            if happening.cause in depth and speaks(happening, about):
                asked.hear(happening)
                level = depth[happening.cause] + 1
                depth.setdefault(happening.seq, level)
                found.append((level, happening))
                if len(found) >= limit:
                    return Trace(causes, found)
        if progress is not None and entries:
            progress(entries[-1].seq)
    return Trace(causes, found)


_CAUSE = re.compile(rb'"cause":(\d+)')


def _may_follow(entry: Entry, causes: Mapping[int, object], asked: _Asked) -> bool:
    """Tell whether it is worth decoding: most messages of a log have nothing to do with it."""
    if entry.suffix in COMMITS:
        return any(int(cause) in causes for cause in set(_CAUSE.findall(entry.payload)))
    return job_of(entry.suffix) in asked.of or (bool(asked.of) and entry.suffix.startswith("verdict."))


def _causes(source: Source, seq: int, about: str) -> list[Happening]:
    """Return all that the message at *seq* comes from, itself included, in order."""
    found: dict[int, list[Happening]] = {}
    todo = [seq]
    while todo:
        here = todo.pop()
        if here in found:
            continue
        there = [_asked_before(source, h) for es in source.read(here, here) for h in happenings(es)]
        if about:
            there = [h for h in there if speaks(h, about)] or there
        found[here] = there
        # A commit's causes lie before it, whatever a damaged log says.
        todo += [h.cause for h in there if 0 < h.cause < here]
    return [h for here in sorted(found) for h in found[here]]


def _asked_before(source: Source, happening: Happening) -> Happening:
    """Link an answer from outside to the last commit before it that asked for it."""
    what = answers(happening)
    if not what:
        return happening
    mark = what.partition(" ")[0].encode()
    end = happening.seq - 1
    while end >= source.first:
        start = max(source.first, end - STRIDE + 1)
        asked = _Asked()
        for entries in source.read(start, end, ("slices", "checks")):
            for each in happenings(e for e in entries if mark in e.payload):
                asked.hear(each)
        if what in asked.of:
            return asked.linked(happening)
        end = start - 1
    return happening


def speaks(happening: Happening, about: str) -> bool:
    """Tell whether it is about the thing, by key, name, or a workload's name that begins as its job's."""
    if not about:
        return True
    key = about if "/" in about else f"default/{about}"
    namespace, _, name = key.partition("/")
    stem = f"{namespace}/job-{name}-"
    return any(one in (about, key) or one.startswith(stem) for one in happening.about())


__all__ = ["Trace", "speaks", "trace"]
