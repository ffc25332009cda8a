"""A job's life as lanes: spans of its phases, variants, slices and checks, and marks where it was stopped.

The pictures of the command line and the lanes of the console are drawn from this.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from sluice.core.views.present.job import Phase
from sluice.core.workload.reasons import FLAVOR_MIGRATION, PREEMPTED
from sluice.events.base import Micros

from .causes import Happening

__all__ = ["CHECK", "PHASE", "SLICE", "VARIANT", "Lane", "Mark", "Span", "Story", "stretches", "tell"]

PHASE: Final = "phase"
VARIANT: Final = "variant"
SLICE: Final = "slice"
CHECK: Final = "check"
"""Kinds of lanes: a job's phases, one of its variants, one of its workload slices, one of its checks."""

HOLDING: Final = (Phase.RESERVED, Phase.ADMITTED, Phase.RUNNING, Phase.STOPPING)
"""Phases in which a workload has quota, in the order in which they come."""


@dataclass
class Span:
    """A state that lasted."""

    lane: str
    state: str
    """A `Phase` of a job, or of a check its state."""
    detail: str
    begin: Micros
    from_seq: int
    end: Micros | None = None
    """None: it had not ended at the end of the log."""
    to_seq: int = 0
    attempt: int = 0
    """Which reservation of its workload it belongs to; 0: to none."""
    stopped: str = ""
    """How the reservation ended, when not by itself: preempted, migrated, evicted."""
    note: str = ""
    """What a picture says of it."""


@dataclass
class Mark:
    """Something that happened at one moment: `Preempted`, `Migrated` or `Evicted`."""

    lane: str
    type: str
    seq: int
    at: Micros
    text: str
    other: str = ""
    """The preemptor, as a workload."""


@dataclass
class Lane:
    name: str
    """Of the job, workload or check."""
    kind: str
    job: str
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


@dataclass
class Story:
    """What is drawn, taken from happenings in order."""

    lanes: dict[tuple[str, str, str], Lane] = field(default_factory=dict)
    """By job, kind and name, in the order in which they came."""
    moves: list[tuple[Span, Span]] = field(default_factory=list)
    """The last span of a reservation, and the first one of that to which it migrated."""
    _jobs: dict[str, str] = field(default_factory=dict)
    """Workload -> job."""
    _kinds: dict[str, str] = field(default_factory=dict)
    _families: dict[str, list[str]] = field(default_factory=dict)
    """Job -> its workloads that may have quota."""
    _left: dict[str, Span] = field(default_factory=dict)
    """Job -> the reservation that it migrates from."""

    def shown(self) -> list[Lane]:
        """Return the lanes that say something: of a job with one workload that one has the phases' own."""
        return [
            lane
            for lane in self.lanes.values()
            if lane.spans and (lane.kind in (PHASE, CHECK) or len(self._families.get(lane.job, ())) > 1)
        ]

    def runs(self) -> Iterator[tuple[str, list[Span]]]:
        """Yield each reservation of each workload with its job: its spans, one after the other."""
        for lane in self.lanes.values():
            if lane.kind not in (VARIANT, SLICE):
                continue
            for attempt in dict.fromkeys(span.attempt for span in lane.spans if span.attempt):
                yield lane.job, [span for span in lane.spans if span.attempt == attempt]

    def waits(self) -> Iterator[tuple[str, list[Span]]]:
        """Yield each job's waits: spans of one reason after the other, without a gap."""
        for lane in self.lanes.values():
            for group in stretches(lane.spans if lane.kind == PHASE else ()):
                if group[0].state == Phase.QUEUED:
                    yield lane.job, group

    def is_open(self) -> bool:
        """Tell whether anything of it lasts."""
        return any(lane.spans and lane.spans[-1].end is None for lane in self.lanes.values())

    def take(self, h: Happening) -> None:
        record = h.data.get("workload")
        key = f"{record['namespace']}/{record['name']}" if isinstance(record, dict) else str(record)
        if (act := _TOLD.get(h.type)) is not None:
            act(self, key, h)

    # What each event does. Lanes of workloads are entered first: the job's phase follows from theirs.

    def _created(self, key: str, h: Happening) -> None:
        record = h.data["workload"]
        if not isinstance(record, dict):
            return
        job = str((record.get("job") or {}).get("key", key))
        self._join(key, job, SLICE)
        if not record.get("replaces"):
            self._wait(key, job, "", h)

    def _variant(self, key: str, h: Happening) -> None:
        record = h.data["workload"]
        if not isinstance(record, dict):
            return
        parent = str(record.get("parent"))
        job = self._job(parent)
        # A parent is queued by nobody: its variants are what may have quota.
        if parent in self._families.get(job, ()):
            self._families[job].remove(parent)
            self.lanes.pop((job, SLICE, parent), None)
        self._join(key, job, VARIANT)
        self._enter(self._lane(key), Phase.QUEUED, "", h)

    def _reason(self, _: str, h: Happening) -> None:
        for key in h.data.get("workloads", ()):
            if key not in self._jobs:
                continue
            if (lane := self._lane(key)).spans and lane.spans[-1].state == Phase.QUEUED:
                self._enter(lane, Phase.QUEUED, str(h.data["reason"]), h)
            job = self._job(key)
            phases = self._phases(job)
            if phases.spans and phases.spans[-1].state == Phase.QUEUED and self._families[job] == [key]:
                self._enter(phases, Phase.QUEUED, str(h.data["reason"]), h)

    def _reserved(self, key: str, h: Happening) -> None:
        job = self._job(key)
        if key not in self._jobs:
            self._join(key, job, SLICE)
        flavors = sorted({f for ps in h.data["podSets"] for f in ps["flavors"].values()})
        counts = ", ".join(f"{ps['count']} x {ps['name']}" for ps in h.data["podSets"])
        lane, where = self._lane(key), ", ".join(flavors) or "no flavor"
        attempt = max((span.attempt for span in lane.spans), default=0) + 1
        span = self._enter(lane, Phase.RESERVED, where, h, attempt=attempt)
        span.note = f"{job} ({counts}) on {where}"
        left = self._left.pop(job, None) or next(
            (each for each in self._holding(job) if each is not span and each.stopped == "migrated"), None
        )
        if left is not None:
            self.moves.append((left, span))
        self._follow(job, h)

    def _advance(self, key: str, h: Happening, state: str) -> None:
        span = self._held(key)
        if span is not None and span.state != Phase.STOPPING and h.data.get("ready", True):
            self._enter(self._lane(key), state, span.detail, h, attempt=span.attempt, note=span.note)
            self._follow(self._job(key), h)

    def _evicted(self, key: str, h: Happening) -> None:
        span = self._held(key)
        if span is None:
            return
        reason, message = h.data["reason"], h.data.get("message", "")
        stopping = self._enter(
            self._lane(key),
            Phase.STOPPING,
            span.detail,
            h,
            attempt=span.attempt,
            note=f"{span.note}; {reason}: {message}",
        )
        stopping.stopped = {PREEMPTED: "preempted", FLAVOR_MIGRATION: "migrated"}.get(reason, "evicted")
        kind = {"preempted": "Preempted", "migrated": "Migrated"}.get(stopping.stopped, "Evicted")
        text = f"{reason}: {message}" if kind == "Evicted" else message
        job = self._job(key)
        for lane in self._marked(key, job):
            lane.marks.append(Mark(lane.name, kind, h.seq, h.at, text))
        self._follow(job, h)

    def _preempted(self, key: str, h: Happening) -> None:
        if key not in self._jobs:
            return
        for lane in self._marked(key, self._job(key)):
            mark = next((m for m in lane.marks if m.seq == h.seq and m.type == "Preempted"), None)
            if mark is None:
                mark = Mark(lane.name, "Preempted", h.seq, h.at, "")
                lane.marks.append(mark)
            mark.other = str(h.data["preemptor"])
            mark.text = f"preempted by {mark.other}: {h.data.get('rule', '')}"

    def _released(self, key: str, h: Happening) -> None:
        self._stop(key, h, waits=True)

    def _replaced(self, key: str, h: Happening) -> None:
        self._stop(key, h, waits=False)

    def _over(self, key: str, h: Happening) -> None:
        job = self._job(key)
        for lane in [lane for (name, _, _), lane in self.lanes.items() if name == job]:
            self._leave(lane, h)

    def _gone(self, key: str, h: Happening) -> None:
        """A slice that another one has replaced goes by itself; with its last workload the job does."""
        job = self._job(key)
        others = [self._lane(each).spans for each in self._families.get(job, ()) if each != key]
        if self._kinds.get(key) == SLICE and any(spans and spans[-1].end is None for spans in others):
            self._leave(self._lane(key), h)
        else:
            self._over(key, h)

    def _deactivated(self, key: str, h: Happening) -> None:
        job = self._job(key)
        lanes = [self.lanes.get((job, PHASE, job)), self.lanes.get((job, self._kinds.get(key, SLICE), key))]
        for lane in lanes:
            if (
                lane is not None
                and lane.spans
                and lane.spans[-1].end is None
                and lane.spans[-1].state == Phase.QUEUED
            ):
                self._enter(lane, Phase.SUSPENDED, str(h.data.get("reason", "")), h)

    def _switch(self, key: str, h: Happening, state: str) -> None:
        if key not in self._jobs or self._held(key) is not None:
            return
        if state:
            self._enter(self._lane(key), state, "", h)
        else:
            self._leave(self._lane(key), h)

    def _check(self, key: str, h: Happening) -> None:
        names = h.data.get("checks") or [h.data.get("check")]
        job = self._job(key)
        for name in names:
            lane = self.lanes.setdefault((job, CHECK, str(name)), Lane(str(name), CHECK, job))
            self._enter(lane, str(h.data.get("state", "Pending")), str(h.data.get("message", "")), h)

    def _withdrawn(self, key: str, h: Happening) -> None:
        job = self._job(key)
        for (name, kind, _), lane in self.lanes.items():
            if name == job and kind == CHECK:
                self._leave(lane, h)

    # Lanes and spans.

    def _job(self, key: str) -> str:
        return self._jobs.get(key, key)

    def _join(self, key: str, job: str, kind: str) -> None:
        self._jobs[key], self._kinds[key] = job, kind
        if key not in (family := self._families.setdefault(job, [])):
            family.append(key)
        self._phases(job)
        self.lanes.setdefault((job, kind, key), Lane(key, kind, job))

    def _lane(self, key: str) -> Lane:
        at = self._job(key), self._kinds[key], key
        if at not in self.lanes:  # a parent, whose variants have lanes instead, and that has none any more
            self.lanes[at] = Lane(key, at[1], at[0])
        return self.lanes[at]

    def _phases(self, job: str) -> Lane:
        return self.lanes.setdefault((job, PHASE, job), Lane(job, PHASE, job))

    def _marked(self, key: str, job: str) -> list[Lane]:
        return [self._phases(job), self._lane(key)]

    def _held(self, key: str) -> Span | None:
        """Return the span in which the workload has quota now."""
        spans = self._lane(key).spans if key in self._jobs else []
        return spans[-1] if spans and spans[-1].attempt and spans[-1].end is None else None

    def _holding(self, job: str) -> Iterator[Span]:
        for key in self._families.get(job, ()):
            if (span := self._held(key)) is not None:
                yield span

    def _wait(self, key: str, job: str, detail: str, h: Happening) -> None:
        self._enter(self._lane(key), Phase.QUEUED, detail, h)
        if not any(self._holding(job)):
            self._enter(self._phases(job), Phase.QUEUED, detail, h)

    def _stop(self, key: str, h: Happening, *, waits: bool) -> None:
        span, job = self._held(key), self._job(key)
        if span is None:
            return
        self._leave(self._lane(key), h)
        if any(self._holding(job)):
            if span.stopped == "migrated":
                self._moved_behind(span, job)
            self._follow(job, h)
        elif waits:
            self._wait(key, job, "", h)
            if span.stopped == "migrated":
                self._left[job] = span
        else:
            self._leave(self._phases(job), h)

    def _moved_behind(self, left: Span, job: str) -> None:
        """Note where it goes on; with admission checks its quota there is older than the eviction here."""
        new = next((span for span in self._holding(job) if not span.stopped), None)
        if new is not None and all(before is not left for before, _ in self.moves):
            spans = self.lanes[job, self._kinds[new.lane], new.lane].spans
            self.moves.append((left, next(span for span in spans if span.attempt == new.attempt)))

    def _follow(self, job: str, h: Happening) -> None:
        """Have the job's phase be that of the workload of it that is furthest."""
        best = max(
            self._holding(job),
            key=lambda s: (s.state != Phase.STOPPING, HOLDING.index(s.state)),
            default=None,
        )
        if best is not None:
            self._enter(self._phases(job), best.state, best.detail, h, note=best.note)

    def _enter(
        self, lane: Lane, state: str, detail: str, h: Happening, *, attempt: int = 0, note: str = ""
    ) -> Span:
        last = lane.spans[-1] if lane.spans else None
        if last is not None and last.end is None:
            if (last.state, last.detail, last.attempt) == (state, detail, attempt):
                return last
            # What lasted no time, such as a reservation that is admitted at once, is not a state to show.
            if last.begin == h.at and last.from_seq == h.seq and last.attempt == attempt:
                last.state, last.detail, last.note = state, detail, note or last.note
                return last
            last.end, last.to_seq = h.at, h.seq
        span = Span(lane.name, state, detail, h.at, h.seq, attempt=attempt, note=note)
        lane.spans.append(span)
        return span

    def _leave(self, lane: Lane, h: Happening) -> None:
        if lane.spans and lane.spans[-1].end is None:
            lane.spans[-1].end, lane.spans[-1].to_seq = h.at, h.seq


_TOLD: dict[str, Callable[[Story, str, Happening], Any]] = {
    "WorkloadCreated": Story._created,
    "VariantCreated": Story._variant,
    "PendingReasonChanged": Story._reason,
    "WorkloadsParked": Story._reason,
    "QuotaReserved": Story._reserved,
    "Admitted": lambda story, key, h: story._advance(key, h, Phase.ADMITTED),
    "WorkloadPodsReady": lambda story, key, h: story._advance(key, h, Phase.RUNNING),
    "VariantPodsReady": lambda story, key, h: story._advance(key, h, Phase.RUNNING),
    "Evicted": Story._evicted,
    "Preempted": Story._preempted,
    "QuotaReleased": Story._released,
    "WorkloadSliceReplaced": Story._replaced,
    "VariantDeleted": Story._replaced,
    "WorkloadFinished": Story._over,
    "WorkloadDeleted": Story._gone,
    "WorkloadDeactivated": Story._deactivated,
    "VariantDeactivated": lambda story, key, h: story._switch(key, h, ""),
    "VariantActivated": lambda story, key, h: story._switch(key, h, Phase.QUEUED),
    "ChecksRequested": Story._check,
    "CheckStateChanged": Story._check,
    "ChecksWithdrawn": Story._withdrawn,
}


def stretches(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Yield spans of one state of one reservation, one after the other, without a gap."""
    group: list[Span] = []
    for span in spans:
        if group and (span.state, span.attempt, span.begin) != (
            group[0].state,
            group[0].attempt,
            group[-1].end,
        ):
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def tell(found: Iterable[Happening]) -> Story:
    """Return what *found*, in the log's order, says of the jobs in it."""
    story = Story()
    for h in found:
        story.take(h)
    return story
