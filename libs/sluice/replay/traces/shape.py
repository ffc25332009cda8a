"""A job's lanes as spans of a trace.

process job.{namespace}.{name}      from its submission to its end; child of the submitter's span
  Queued                            a wait; its reasons are events
  workload                          of a job with several: each variant, each slice
    Queued
    attempt                         a reservation; links to the job that preempted it
      check                         from the question to the answer
      QuotaReserved, Admitted, Running, Stopping
  migration                         from its eviction until it runs elsewhere; links to both attempts
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode

from sluice import __version__
from sluice.core.views.present.job import Phase
from sluice.events.base import Micros
from sluice.replay.history.lanes import CHECK, PHASE, SLICE, VARIANT, Lane, Span, Story, stretches

from . import contexts

_SCOPE = InstrumentationScope("sluice.replay.traces", __version__)

Attributes = Mapping[str, str | int | bool]


@dataclass
class Told:
    """What is known of a job."""

    cell: str
    name: str
    uid: str
    queue: str
    seed: str
    """What tells it from all other jobs: its ids are made of this."""
    submitted_at: Micros
    submitter: SpanContext | None
    root: SpanContext
    story: Story = field(default_factory=Story)
    preemptors: dict[tuple[int, str], tuple[str, SpanContext]] = field(default_factory=dict)
    """(sequence of Preempted, workload of the preemptor) -> the preemptor's name and span."""
    cluster_queue: str = ""
    last_at: Micros = 0
    result: str = ""
    message: str = ""


def shape(told: Told, end: Micros, *, over: bool) -> list[ReadableSpan]:
    """Return the spans of a job, its own first; those that last end at *end*."""
    return _Shape(told, end).all(over=over)


class _Shape:
    def __init__(self, told: Told, end: Micros) -> None:
        self._told, self._end = told, end
        self._resource = Resource({"service.name": "sluice", "sluice.cell": told.cell})
        self._spans: list[ReadableSpan] = []
        self._attempts: dict[tuple[str, int], tuple[SpanContext, list[Span]]] = {}
        """(workload, attempt) -> its span, and what it consists of."""

    def all(self, *, over: bool) -> list[ReadableSpan]:
        lanes = list(self._told.story.lanes.values())
        phases = next((lane for lane in lanes if lane.kind == PHASE), None)
        workloads = [lane for lane in lanes if lane.kind in (VARIANT, SLICE) and lane.spans]
        self._root(phases, over=over)
        if phases is not None:
            self._waits(phases, self._told.root)
        for lane in workloads:
            self._workload(lane, several=len(workloads) > 1)
        for lane in lanes:
            if lane.kind == CHECK:
                self._check(lane)
        moves: dict[int, tuple[Span, list[Span]]] = {}
        for left, new in self._told.story.moves:
            moves.setdefault(id(left), (left, []))[1].append(new)
        for left, reserved in moves.values():
            self._migration(left, reserved)
        return self._spans

    def _root(self, phases: Lane | None, *, over: bool) -> None:
        told = self._told
        namespace, _, name = told.name.partition("/")
        marks = phases.marks if phases is not None else ()
        result = told.result or ("Deleted" if over else "")
        failed = told.result not in ("", Phase.SUCCEEDED)
        self._add(
            "process job.{namespace}.{name}",
            told.root,
            told.submitter,
            told.submitted_at,
            self._end,
            {
                "messaging.system": "nats",
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.template": "job.{namespace}.{name}",
                "messaging.destination.name": f"job.{namespace}.{name}",
                "sluice.job.namespace": namespace,
                "sluice.job.name": name,
                "sluice.job.uid": told.uid,
                "sluice.job.result": result,
                "sluice.local_queue": told.queue,
                "sluice.cluster_queue": told.cluster_queue,
            },
            events=[
                _event(mark.type, mark.at, {"sluice.message": mark.text, "sluice.log.seq": mark.seq})
                for mark in marks
            ],
            kind=SpanKind.CONSUMER,
            status=Status(StatusCode.ERROR, told.message or told.result) if failed else Status(),
        )

    def _waits(self, lane: Lane, parent: SpanContext) -> None:
        """Add what is of no reservation: waits, with a reason after the other; and suspensions."""
        for group in stretches(lane.spans):
            if group[0].attempt or group[0].state not in (Phase.QUEUED, Phase.SUSPENDED):
                continue
            self._group(group[0].state, parent, lane, group, events=_changes(group, "sluice.reason"))

    def _workload(self, lane: Lane, *, several: bool) -> None:
        parent = self._told.root
        if several:
            parent = self._group(
                "workload", parent, lane, lane.spans, {"sluice.workload.kind": lane.kind}, _marked(lane)
            )
            self._waits(lane, parent)
        for number in dict.fromkeys(span.attempt for span in lane.spans if span.attempt):
            self._attempt(lane, [span for span in lane.spans if span.attempt == number], parent)

    def _attempt(self, lane: Lane, spans: list[Span], parent: SpanContext) -> None:
        number, stopped = spans[0].attempt, next((span for span in spans if span.stopped), None)
        attributes: Attributes = {
            "sluice.attempt": number,
            "sluice.flavors": spans[-1].detail,
            "sluice.attempt.stopped": stopped.stopped if stopped is not None else "",
        }
        links = []
        for mark in lane.marks:
            by = self._told.preemptors.get((mark.seq, mark.other))
            if by is not None and stopped is not None and mark.seq == stopped.from_seq:
                links.append(Link(by[1], {"sluice.link": "preemptor", "sluice.preemptor": by[0]}))
        context = self._group("attempt", parent, lane, spans, attributes, links=links)
        self._attempts[lane.name, number] = context, spans
        for span in spans:
            # What the scheduler calls a message of a reservation is the flavors, which the attempt has.
            self._group(span.state, context, lane, [span])

    def _check(self, lane: Lane) -> None:
        """Add each question to the check's controller: it ends with another state than Pending."""
        groups = list(stretches(lane.spans))
        for group, after in zip(groups, [*groups[1:], None], strict=True):
            if group[0].state != "Pending":
                continue
            answered = after is not None and after[0].begin == group[-1].end
            attributes = {
                "sluice.check": lane.name,
                "sluice.check.state": after[0].state if answered and after is not None else "",
                "sluice.check.message": after[0].detail if answered and after is not None else "",
            }
            parent, until = self._reserved_in(group[0])
            events = _changes(group, "sluice.message")
            self._group("check", parent, lane, group, attributes, events, until=until)

    def _reserved_in(self, asked: Span) -> tuple[SpanContext, Micros]:
        """Return the attempt whose check this is, of those that last the one that began last; and its end.

        A question is withdrawn a moment after that.
        """
        found = [
            (spans[0].from_seq, context, self._ended(spans[-1].end))
            for context, spans in self._attempts.values()
            if spans[0].from_seq <= asked.from_seq
            and (not spans[-1].to_seq or asked.from_seq <= spans[-1].to_seq)
        ]
        return max(found, key=lambda each: each[0])[1:] if found else (self._told.root, self._end)

    def _migration(self, left: Span, reserved: Sequence[Span]) -> None:
        """Add one from *left*; of several flavors that were reserved meanwhile to the first where it ran."""
        before, _ = self._attempts[left.lane, left.attempt]
        found: list[tuple[Micros, Span]] = []
        for new in reserved:
            _, spans = self._attempts[new.lane, new.attempt]
            found += [(span.begin, new) for span in spans if span.state == Phase.RUNNING]
        runs, new = min(found, key=lambda each: each[0]) if found else (None, reserved[-1])
        after, spans = self._attempts[new.lane, new.attempt]
        self._add(
            "migration",
            contexts.below(self._told.root, self._told.seed, "migration", left.from_seq),
            self._told.root,
            left.begin,
            self._ended(spans[-1].end) if runs is None else max(runs, left.begin),
            {
                "sluice.flavors.from": left.detail,
                "sluice.flavors.to": new.detail,
                "sluice.log.seq": left.from_seq,
            },
            links=[Link(before, {"sluice.link": "from"}), Link(after, {"sluice.link": "to"})],
        )

    def _group(
        self,
        name: str,
        parent: SpanContext,
        lane: Lane,
        spans: Sequence[Span],
        attributes: Attributes | None = None,
        events: Iterable[Event] = (),
        links: Sequence[Link] = (),
        until: Micros | None = None,
    ) -> SpanContext:
        """Add a span from the first to the last of *spans* of a lane, to *until* at most."""
        first, last = spans[0], spans[-1]
        context = contexts.below(
            self._told.root,
            self._told.seed,
            name,
            lane.kind,
            lane.name,
            first.attempt,
            first.from_seq,
            first.begin,
        )
        own: dict[str, str | int | bool] = {"sluice.log.seq": first.from_seq, **(attributes or {})}
        if lane.kind in (VARIANT, SLICE):
            own["sluice.workload"] = lane.name
        if last.end is None:
            own["sluice.unfinished"] = True
        end = self._ended(last.end) if until is None else min(self._ended(last.end), until)
        self._add(name, context, parent, first.begin, end, own, list(events), links)
        return context

    def _ended(self, end: Micros | None) -> Micros:
        return self._end if end is None else end

    def _add(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        begin: Micros,
        end: Micros,
        attributes: Attributes,
        events: Sequence[Event] = (),
        links: Sequence[Link] = (),
        kind: SpanKind = SpanKind.INTERNAL,
        status: Status | None = None,
    ) -> None:
        self._spans.append(
            ReadableSpan(
                name,
                context,
                parent,
                self._resource,
                {key: value for key, value in attributes.items() if value != ""},
                events,
                links,
                kind,
                status=status or Status(),
                start_time=begin * 1000,
                end_time=end * 1000,
                instrumentation_scope=_SCOPE,
            )
        )


def _changes(group: Sequence[Span], attribute: str) -> list[Event]:
    """Return what was said while a state went on, as events."""
    return [
        _event("reason", span.begin, {attribute: span.detail, "sluice.log.seq": span.from_seq})
        for span in group
        if span.detail
    ]


def _marked(lane: Lane) -> list[Event]:
    return [
        _event(mark.type, mark.at, {"sluice.message": mark.text, "sluice.log.seq": mark.seq})
        for mark in lane.marks
    ]


def _event(name: str, at: Micros, attributes: Attributes) -> Event:
    return Event(name, attributes, timestamp=at * 1000)
