"""A log as a film: event by event, forward and back, each with what it changes in the cell.

film = Film(source)
frame = film.at(Place(27, 0))
frame.happening, frame.lines        # the event; [Line("~", "job default/train", "Running ...")]

Going on costs one event. Going back shows what was seen before, or folds from the nearest snapshot.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sluice.core.views.present.job import current, is_over
from sluice.core.views.present.slices import described, is_slice
from sluice.events.base import Event, Micros
from sluice.events.codec import CommitDecodeError, decode_commit
from sluice.events.envelope import Message
from sluice.log.cell import CellFold, CellState
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import LONG, beginning, fold_at, unhurried
from sluice.replay.views.describe import (
    check_plain,
    configuration_of,
    family_plain,
    job_plain,
    workload_plain,
)
from sluice.replay.views.quota import queue_plain
from sluice.replay.views.text import check_line, plain_text

from .causes import Happening, of_event, of_message
from .trace import speaks

QUEUES, JOBS = 8, 12
"""Up to so many are shown always; of more, only those that an event touches, and who is watched."""
KEPT = 4_000
"""Frames kept for going back at once."""
BEHIND = 50
"""Messages played before the one that is gone back to, as whoever goes back goes on doing so."""


class Place(NamedTuple):
    """An event: the message's sequence, and its number in the message from 0."""

    seq: int
    number: int


class Line(NamedTuple):
    """One line of state. `mark`: "+" new, "-" gone, "~" changed by the event, " " as before."""

    mark: str
    name: str
    text: str


@dataclass(frozen=True)
class Frame:
    """One event, and the state that it left."""

    place: Place
    count: int
    """How many events its message holds."""
    happening: Happening
    lines: list[Line]


class _Shot(NamedTuple):
    """An event not yet folded."""

    place: Place
    events: int
    entry: Entry
    event: Event | None
    """None: what cannot be read, or says nothing that the cell's state is made from."""
    at: Micros


class Film:
    """Plays a log; `at` moves to a place and shows it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.watched: dict[str, None] = {}
        self._fold = CellFold()
        self._frames: dict[Place, Frame] = {}
        self._cell = CellState()
        self._shots: Iterator[_Shot] = iter(())
        self._place = Place(0, 0)
        """What `_cell` has come to."""
        begun = beginning(source, self._fold)
        self._first = max(source.first, begun.upto + 1)
        """The first message that can be played."""
        self._rewind(self._first)

    def at(self, place: Place) -> Frame:
        """Return the frame at *place*, or at the next event there is; the last one behind the end."""
        found = self._frames.get(place)
        if found is not None:
            return found
        if place <= self._place or place.seq - self._place.seq > LONG:
            self._rewind(place.seq)
        last: Frame | None = None
        for shot in self._shots:
            # Not all of a long way is worth showing.
            if shot.place.seq < place.seq - BEHIND:
                self._apply(shot)
                continue
            last = self._show(shot)
            if shot.place >= place:
                return last
        return last or self.at(self._last())

    def cell(self, place: Place) -> CellState:
        """Return the state that the event at *place* left."""
        if self._place != place:
            self._frames.pop(place, None)
            self.at(place)
        return self._cell

    def after(self, place: Place) -> Place:
        """Return the next event's place; the same one at the end."""
        frame = self.at(place)
        if frame.place.number + 1 < frame.count:
            return Place(frame.place.seq, frame.place.number + 1)
        following = next(_shots(self.source, frame.place.seq + 1), None)
        return frame.place if following is None else following.place

    def before(self, place: Place) -> Place:
        """Return the place of the event before; the same one at the beginning."""
        if place.number:
            return Place(place.seq, place.number - 1)
        return next((shot.place for shot in _backwards(self.source, place.seq - 1)), place)

    def find(self, place: Place, name: str, *, back: bool = False) -> Place | None:
        """Return the next event that speaks of a job, workload or queue; None when there is none."""
        mark = name.rpartition("/")[2].encode()
        if back:
            shots = _backwards(self.source, place.seq, mark)
            return next((s.place for s in shots if s.place < place and speaks(_happening(s), name)), None)
        shots = _shots(self.source, place.seq, mark)
        return next((s.place for s in shots if s.place > place and speaks(_happening(s), name)), None)

    def watch(self, name: str) -> None:
        """Show a job, workload, queue or check with every event from now on."""
        self.watched[name] = None
        self._frames.clear()

    def unwatch(self, name: str) -> None:
        self.watched.pop(name, None)
        self._frames.clear()

    def _rewind(self, seq: int) -> None:
        """Fold to some messages before *seq*, from there on events are played."""
        start = max(self._first, seq - BEHIND)
        if start > self._first:
            fold = fold_at(self.source, self._fold, start - 1)
        else:
            fold = beginning(self.source, self._fold)
        self._cell, self._place = fold.state, Place(start - 1, 1 << 30)
        self._shots = _shots(self.source, start)

    def _last(self) -> Place:
        return next(_backwards(self.source, self.source.end)).place

    def _apply(self, shot: _Shot) -> None:
        if shot.event is not None:
            self._fold.apply(self._cell, shot.event, shot.place.seq, shot.at)
        self._place = shot.place

    def _show(self, shot: _Shot) -> Frame:
        happening = _happening(shot)
        with unhurried():
            names = _focus(self._cell, happening, self.watched)
            old = _lines(self._cell, names)
            self._apply(shot)
            # Known only now: the queue and job of what has just come.
            names |= _focus(self._cell, happening, self.watched)
            new = _lines(self._cell, names)
        lines = [
            Line("~" if name in old and old[name] != text else " " if name in old else "+", name, text)
            for name, text in new.items()
        ]
        lines += [Line("-", name, text) for name, text in old.items() if name not in new]
        if len(self._frames) >= KEPT:
            del self._frames[next(iter(self._frames))]
        frame = self._frames[shot.place] = Frame(shot.place, shot.events, happening, _by_kind(lines))
        return frame


def _by_kind(lines: list[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: _KINDS.index(line.name.partition(" ")[0]))


_KINDS = ("queue", "job", "workload", "check", "presence", "object")


# Events of a log


def _shots(source: Source, start: int, mark: bytes = b"") -> Iterator[_Shot]:
    """Yield all events from a message on; *mark*: only of messages that hold it."""
    for entries in source.read(start):
        for entry in entries:
            yield from _of_entry(entry, mark)


def _backwards(source: Source, end: int, mark: bytes = b"") -> Iterator[_Shot]:
    """Yield all events up to a message, the last one first."""
    stride = 64
    while end >= source.first:
        start = max(source.first, end - stride + 1)
        found = [s for es in source.read(start, end) for entry in es for s in _of_entry(entry, mark)]
        yield from reversed(found)
        end, stride = start - 1, min(2 * stride, 4096)


def _of_entry(entry: Entry, mark: bytes) -> Iterator[_Shot]:
    if mark and mark not in entry.payload and mark not in entry.suffix.encode():
        return
    seq, suffix, at, payload, _ = entry
    if suffix not in COMMITS:
        message = Message(subject=suffix, payload=payload) if suffix.startswith("presence.") else None
        yield _Shot(Place(seq, 0), 1, entry, message, at)
        return
    try:
        steps = decode_commit(payload, suffix, seq).steps
    except CommitDecodeError:
        yield _Shot(Place(seq, 0), 1, entry, None, at)
        return
    events = [(event, step.at) for step in steps for event in step.events]
    for number, (event, decided_at) in enumerate(events):
        yield _Shot(Place(seq, number), len(events), entry, event, decided_at)


def _happening(shot: _Shot) -> Happening:
    entry = shot.entry
    if entry.suffix not in COMMITS:
        return of_message(entry)
    if shot.event is None:
        return Happening(entry.seq, entry.suffix, entry.at, 0, "Unreadable", {})
    return of_event(entry.seq, entry.suffix, shot.at, shot.event)


# What is shown beside an event


def _focus(cell: CellState, happening: Happening, watched: Iterable[str]) -> dict[str, None]:
    """Return `kind name` of what is to be shown: all of a small cell, of a large one what is touched."""
    view = cell.view
    found: dict[str, None] = {}
    if len(view.cluster_queues) <= QUEUES:
        found |= {f"queue {name}": None for name in view.cluster_queues}
    if len(view.jobs) <= 10 * JOBS:
        live = [key for key, job in view.jobs.items() if not is_over(job)]
        if len(live) <= JOBS:
            found |= {f"job {key}": None for key in live}
    for name in (*watched, *sorted(happening.about())):
        found |= _shown_as(cell, name)
    data = happening.data
    if isinstance(data.get("check"), str):
        found[f"check {data['check']}"] = None
    if happening.writer == "config" and "kind" in data:
        namespace = f"{data['namespace']}/" if data.get("namespace") else ""
        found[f"object {data['kind']}/{namespace}{data['name']}"] = None
    if happening.writer == "presence":
        _, kind, name = str(data.get("subject", "..")).split(".", 2)
        found[f"presence {kind}/{name}"] = None
    return found


def _shown_as(cell: CellState, name: str) -> dict[str, None]:
    """Return what is shown of the thing with that name: of a workload its job and its queue."""
    view = cell.view
    found: dict[str, None] = {}
    if name in view.cluster_queues:
        found[f"queue {name}"] = None
    if name in cell.objects.by_kind["AdmissionCheck"]:
        found[f"check {name}"] = None
    key = name if "/" in name else f"default/{name}"
    workload = view.workloads.get(key)  # type: ignore[call-overload]
    if workload is not None:
        if workload.queue is not None:
            found[f"queue {workload.queue.name}"] = None
        parent = view.workloads.get(workload.record.parent) if workload.record.parent else None
        job = (parent or workload).record.job
        found[f"workload {key}" if job is None else f"job {job.key}"] = None
    if key in view.jobs or key in cell.refused:
        found[f"job {key}"] = None
    return found


def _lines(cell: CellState, names: Iterable[str]) -> dict[str, str]:
    """Return name -> its state in a line; variants and slices stand below their job."""
    found: dict[str, str] = {}
    for name in names:
        kind, _, key = name.partition(" ")
        found.update(_LINES[kind](cell, key))
    return found


def _queue(cell: CellState, key: str) -> Iterator[tuple[str, str]]:
    queue = cell.view.cluster_queues.get(key)
    if queue is not None:
        found = queue_plain(cell, queue)
        promised = {fr: f" (+{more} promised)" for fr, more in found.get("promised", {}).items()}
        used = ", ".join(
            f"{found['used'].get(fr, '0')}{promised.get(fr, '')} of {total} {fr}"
            for fr, total in found["nominal"].items()
        )
        text = f"{used or 'no quota'} used; {found['pending']} pending, {found['admitted']} admitted"
        yield f"queue {key}", text + (f"; inactive: {found['inactive']}" if "inactive" in found else "")


def _job(cell: CellState, key: str) -> Iterator[tuple[str, str]]:
    job = cell.view.jobs.get(key)  # type: ignore[call-overload]
    if job is None:
        refused = cell.refused.get(key)  # type: ignore[call-overload]
        if refused is not None:
            yield f"job {key}", f"Rejected: {refused.message}"
        return
    found = job_plain(cell, job)
    text = found["phase"]
    text += f" on {','.join(found['flavors'])}" if "flavors" in found else ""
    text += f" in {found['clusterQueue']}" if found.get("clusterQueue") else ""
    text += f", attempt {found['attempts']}" if found["attempts"] else ""
    text += f", {found['reason']}" if found.get("reason", found["phase"]) != found["phase"] else ""
    workload = current(job)
    checks = workload_plain(cell, workload).get("checks", {})
    text += f"; checks: {plain_text(checks)}" if checks else ""
    yield f"job {key}", text
    if workload.parent:
        for variant, one in family_plain(cell, workload)["variants"].items():
            parts = [one["phase"], one.get("reason", "")]
            parts += [f"{gate} {state}" for gate, state in one.get("gates", {}).items()]
            parts += [f"{check} {state}" for check, state in one.get("checks", {}).items()]
            yield f"job {key} variant {variant}", ", ".join(part for part in parts if part)
    if is_slice(workload):
        for one in described(job):
            text = f"{plain_text(one['pods'])}, {one['state']}"
            yield f"job {key} slice {one['name']}", text


def _workload(cell: CellState, key: str) -> Iterator[tuple[str, str]]:
    workload = cell.view.workloads.get(key)  # type: ignore[call-overload]
    if workload is not None:
        found = workload_plain(cell, workload)
        yield f"workload {key}", ", ".join(filter(None, (found["phase"], found.get("reason"))))


def _check(cell: CellState, key: str) -> Iterator[tuple[str, str]]:
    if key in cell.objects.by_kind["AdmissionCheck"]:
        yield f"check {key}", check_line(check_plain(cell, key))


def _presence(cell: CellState, key: str) -> Iterator[tuple[str, str]]:
    who = cell.presence.get(key)
    if who is not None:
        yield f"presence {key}", "there" if who.present else f"lost: {who.message}"


def _object(cell: CellState, key: str) -> Iterator[tuple[str, str]]:
    kind, _, name = key.partition("/")
    found = configuration_of(cell, kind, name)
    if found is not None:
        yield f"object {key}", ""
        for path, value in found.items():
            for inner, text in _values(path, value):
                yield f"object {key} {inner}", text


def _values(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _values(f"{path}.{name}", inner)
    elif isinstance(value, list) and value and all(isinstance(v, dict) and "name" in v for v in value):
        for member in value:
            yield from _values(f"{path}.{member['name']}", {k: v for k, v in member.items() if k != "name"})
    else:
        yield path, plain_text(value)


_LINES = {
    "queue": _queue,
    "job": _job,
    "workload": _workload,
    "check": _check,
    "presence": _presence,
    "object": _object,
}

__all__ = ["Film", "Frame", "Line", "Place"]
