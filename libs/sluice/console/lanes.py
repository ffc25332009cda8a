"""A job's life as lanes: its phases, its variants, slices and checks; and who preempted whom."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.core.workload.reasons import FLAVOR_MIGRATION, PREEMPTED
from sluice.events.codec import rfc3339
from sluice.events.scheduler import Preempted
from sluice.events.slices import WorkloadCreated
from sluice.events.variants import VariantCreated
from sluice.log.fold import steps_of
from sluice.replay.history.causes import Happening
from sluice.replay.source.source import Source

from .answers import Lane, Mark, PreemptionRow, Span

WAITING, RESERVED, ADMITTED, RUNNING, STOPPING = "Waiting", "QuotaReserved", "Admitted", "Running", "Stopping"


@dataclass
class _Open:
    """A stretch that lasts."""

    seq: int
    at: int
    state: str
    detail: str = ""


@dataclass
class _LaneSoFar:
    name: str
    kind: str
    spans: list[Span] = field(default_factory=list)
    open: _Open | None = None

    def go(self, h: Happening, state: str, detail: str = "") -> None:
        """Begin a stretch, unless it is the one that lasts."""
        now = self.open
        if now is not None and (now.state, now.detail) == (state, detail):
            return
        self.end(h)
        self.open = _Open(h.seq, h.at, state, detail)

    def end(self, h: Happening) -> None:
        now, self.open = self.open, None
        if now is not None:
            self.spans.append(_span(now, rfc3339(h.at), h.seq))

    def closed(self) -> Lane:
        last = [] if self.open is None else [_span(self.open, "", 0)]
        return Lane(name=self.name, kind=self.kind, spans=[*self.spans, *last])


def _span(now: _Open, to: str, to_seq: int) -> Span:
    return Span(
        from_=rfc3339(now.at), to=to, from_seq=now.seq, to_seq=to_seq, state=now.state, detail=now.detail
    )


@dataclass
class Drawn:
    lanes: list[Lane]
    marks: list[Mark]


class _Story:
    """Lanes so far: one for the job, one for each of its workloads where it has more, one for each check."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.job = _LaneSoFar(key, "phase")
        self.others: dict[str, _LaneSoFar] = {}
        self.checks: dict[str, _LaneSoFar] = {}
        self.marks: list[Mark] = []

    def take(self, h: Happening) -> None:
        record = h.data.get("workload")
        workload = (
            f"{record['namespace']}/{record['name']}" if isinstance(record, dict) else str(record or "")
        )
        match h.type:
            case "WorkloadCreated" | "VariantCreated" if isinstance(record, dict):
                self._created(h, workload, record)
            case "PendingReasonChanged":
                for one in h.data.get("workloads", ()):
                    if one in self.others:
                        self._go(h, one, WAITING, str(h.data.get("reason", "")))
            case "QuotaReserved":
                self._go(h, workload, RESERVED, _flavors(h.data))
            case "Admitted" | "ParentAdmitted":
                now = self.job.open
                self._go(h, workload, ADMITTED, now.detail if now is not None else "")
            case "WorkloadPodsReady" | "JobPodsReady":
                now = self.job.open
                self._go(h, workload, RUNNING, now.detail if now is not None and now.state != WAITING else "")
            case "Evicted" | "ParentEvicted":
                self._go(h, workload, STOPPING, str(h.data.get("reason", "")))
                self._mark(h, workload, str(h.data.get("message", "")))
            case "Preempted" if workload and h.data.get("preemptor"):
                self._mark(h, workload, str(h.data.get("message", "")), str(h.data["preemptor"]))
            case "QuotaReleased":
                self._go(h, workload, WAITING)
            case "WorkloadFinished" | "WorkloadDeleted" | "WorkloadSliceReplaced":
                self._over(h, workload)
            case "CheckStateChanged":
                name = str(h.data.get("check", ""))
                lane = self.checks.setdefault(name, _LaneSoFar(name, "check"))
                lane.go(h, str(h.data.get("state", "")), str(h.data.get("message", "")))
            case _:
                pass

    def _created(self, h: Happening, workload: str, record: dict[str, Any]) -> None:
        kind = "variant" if h.type == "VariantCreated" else "slice"
        lane = self.others.setdefault(workload, _LaneSoFar(workload, kind))
        lane.go(h, WAITING)
        if self.job.open is None:
            self.job.go(h, WAITING)
        if record.get("replaces"):
            self._mark(h, workload, f"to replace {record['replaces']}", str(record["replaces"]))

    def _go(self, h: Happening, workload: str, state: str, detail: str = "") -> None:
        lane = self.others.get(workload)
        if lane is not None:
            lane.go(h, state, detail)
        if lane is None or lane.kind == "slice" or state != WAITING or self._alone(workload):
            self.job.go(h, state, detail)

    def _alone(self, workload: str) -> bool:
        """Does no other of its workloads hold quota?"""
        return all(
            lane.open is None or lane.open.state == WAITING
            for key, lane in self.others.items()
            if key != workload
        )

    def _over(self, h: Happening, workload: str) -> None:
        lane = self.others.get(workload)
        if lane is not None:
            lane.end(h)
        if all(one.open is None for one in self.others.values()):
            self.job.end(h)
            for check in self.checks.values():
                check.end(h)

    def _mark(self, h: Happening, workload: str, text: str, other: str = "") -> None:
        reason = str(h.data.get("reason", ""))
        kind = {PREEMPTED: "Preempted", FLAVOR_MIGRATION: "Migrated"}.get(reason, h.type)
        self.marks.append(
            Mark(seq=h.seq, time=rfc3339(h.at), type=kind, lane=workload or self.key, text=text, other=other)
        )


def _flavors(data: dict[str, Any]) -> str:
    found = {f for ps in data.get("podSets", ()) for f in ps.get("flavors", {}).values()}
    return ", ".join(sorted(found))


def timeline(found: Sequence[Happening], key: str) -> Drawn:
    """Return what happened to the job *key* as lanes; a job of one workload has no lane for it."""
    story = _Story(key)
    for happening in found:
        story.take(happening)
    others = list(story.others.values())
    shown = others if len(others) > 1 else []
    lanes = [story.job, *shown, *story.checks.values()]
    return Drawn([lane.closed() for lane in lanes], story.marks)


def preemptions(source: Source, until: int, queue: str = "") -> list[PreemptionRow]:
    """Return who preempted whom up to *until*, newest first; *queue*: only where it has a part."""
    jobs: dict[str, str] = {}
    found: list[PreemptionRow] = []
    for entries in source.read(1, until, ("slices", "variants", "scheduler")):
        for entry in entries:
            for step in steps_of(entry):
                for event in step.events:
                    match event:
                        case WorkloadCreated() | VariantCreated():
                            record = event.workload
                            parent = str(record.parent or "")
                            key = record.job.key if record.job is not None else jobs.get(parent, record.key)
                            jobs[record.key] = key
                        case Preempted():
                            found.append(_preemption(entry.seq, step.at, event, jobs))
                        case _:
                            pass
    found.reverse()
    return [row for row in found if not queue or queue in (row.preemptor_queue, row.victim_queue)]


def _preemption(seq: int, at: int, event: Preempted, jobs: dict[str, str]) -> PreemptionRow:
    return PreemptionRow(
        seq=seq,
        time=rfc3339(at),
        preemptor=jobs.get(event.preemptor, event.preemptor),
        preemptor_queue=event.preemptor_path.rpartition("/")[2],
        victim=jobs.get(event.workload, event.workload),
        victim_queue=event.preemptee_path.rpartition("/")[2],
        rule=str(event.rule),
        message=event.message,
    )
