"""A job's life as lanes, for the API; and who preempted whom."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.events.codec import rfc3339
from sluice.events.scheduler import Preempted
from sluice.events.slices import WorkloadCreated
from sluice.events.variants import VariantCreated
from sluice.log.fold import steps_of
from sluice.replay.history import lanes as history
from sluice.replay.history.causes import Happening
from sluice.replay.history.lanes import tell
from sluice.replay.source.source import Source

from .answers import Lane, Mark, PreemptionRow, Span


@dataclass
class Drawn:
    lanes: list[Lane]
    marks: list[Mark]


def timeline(found: Sequence[Happening]) -> Drawn:
    """Return what happened to a job as lanes, the job's own first; those of the command line's pictures."""
    lanes = tell(found).shown()
    marks = [mark for lane in lanes for mark in lane.marks]
    return Drawn(
        [Lane(name=lane.name, kind=lane.kind, spans=[_span(span) for span in lane.spans]) for lane in lanes],
        [
            Mark(
                seq=mark.seq,
                time=rfc3339(mark.at),
                type=mark.type,
                lane=mark.lane,
                text=mark.text,
                other=mark.other,
            )
            for mark in sorted(marks, key=lambda mark: mark.seq)
        ],
    )


def _span(span: history.Span) -> Span:
    return Span(
        from_=rfc3339(span.begin),
        to="" if span.end is None else rfc3339(span.end),
        from_seq=span.from_seq,
        to_seq=span.to_seq,
        state=span.state,
        detail=span.detail,
    )


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
