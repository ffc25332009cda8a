"""Spans of a runner's work: what they are linked to, and that decisions do not depend on them."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.memory import MemoryLog
from sluice.log.nats.protocol import header_block, headers_of
from sluice.log.runtime.spans import MOST_LINKS, Spans
from sluice.protocol.tracing import context_of
from tests.integration.log.bank import order
from tests.unit.log.runtime.test_runner import caught_up, eventually, running

TRACE = "0af7651916cd43dd8448eb211c80319c"
STEP = Step(upto=1, at=1)


@dataclass
class Replica:
    """What a replica tells of itself."""

    decided: int = 0
    pending: list[Step] = field(default_factory=list)

    def decide(self) -> None:
        self.decided += 1
        self.pending.append(STEP)


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def spans(exported: InMemorySpanExporter) -> Spans:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return Spans("scheduler", provider.get_tracer("test"))


def parent(span: int, trace: str = TRACE) -> str:
    return f"00-{trace}-{span:016x}-01"


def traced(payload: bytes, span: int) -> bytes:
    """Return a message as its sender would have made it in a span."""
    return json.dumps({**json.loads(payload), "traceparent": parent(span)}).encode()


def submitted(seq: int, span: int = 0) -> Entry:
    payload = order(f"o{seq}")
    return Entry(seq, "job.a.b", seq, traced(payload, span) if span else payload)


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def named(exported: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exported.get_finished_spans() if span.name == name]


def own(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


async def test_decision_and_commit_are_linked_to_the_message(
    spans: Spans, exported: InMemorySpanExporter
) -> None:
    """Both are traces of their own: a batch is of many traces. The commit says where it landed."""
    log = MemoryLog()
    await log.append("job.a.b", traced(order("o"), 7))
    async with running(log, spans=spans) as runner:
        await eventually(lambda: caught_up(runner))
        await log.append("job.a.b", traced(order("p"), 8))
        await eventually(lambda: caught_up(runner) and len(log.entries) == 4)
    assert exported.get_finished_spans()[0].name == "rebuild"
    decided, committed = named(exported, "decide"), named(exported, "commit")
    assert linked(decided[-1]) == [8]
    assert linked(committed[-1]) == [8, own(decided[-1])]
    assert all(span.parent is None for span in exported.get_finished_spans())
    assert dict(committed[-1].attributes or {}) == {
        "sluice.writer": "scheduler",
        "sluice.steps": 1,
        "sluice.seq": 4,
    }


async def test_who_reads_a_commit_finds_its_span(spans: Spans, exported: InMemorySpanExporter) -> None:
    """It stands in the message's header: the next service is linked to it, and through it to the cause."""
    log = MemoryLog()
    await log.append("job.a.b", traced(order("o"), 7))
    async with running(log, spans=spans) as runner:
        await eventually(lambda: caught_up(runner))
    [commit] = named(exported, "commit")
    entry = log.entries[-1]
    found = context_of(headers_of(entry.header))
    assert found is not None
    assert found.span_id == own(commit)
    assert b"traceparent" not in entry.payload

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    reader, replica = Spans("slices", provider.get_tracer("test")), Replica()
    reader.heard([entry])
    with reader.deciding(replica):
        replica.decide()
    assert linked(named(exported, "decide")[-1]) == [own(commit)]


@pytest.mark.parametrize("tracing", [True, False])
async def test_what_is_decided_is_the_same(spans: Spans, tracing: bool) -> None:
    """With an exporter and without, of messages with a trace context and without."""

    async def payloads(options: dict[str, Any], span: int) -> list[list[dict[str, Any]]]:
        log = MemoryLog()
        for name in "abc":
            payload = order(name)
            await log.append("job.a.b", traced(payload, span) if span else payload)
        async with running(log, **options) as runner:
            await eventually(lambda: caught_up(runner))
        steps = [json.loads(e.payload)["data"]["steps"] for e in log.entries if e.suffix == "scheduler"]
        return [[step["events"] for step in each] for each in steps]

    assert await payloads({"spans": spans} if tracing else {}, 9) == await payloads({}, 0)


def test_a_turn_without_decisions_leaves_nothing(spans: Spans, exported: InMemorySpanExporter) -> None:
    """No span; and what was heard before it did not cause what is decided after it."""
    replica = Replica()
    spans.heard([submitted(1, 5)])
    with spans.deciding(replica):
        pass
    spans.heard([submitted(2, 6)])
    with spans.deciding(replica):
        replica.decide()
    with spans.committing(1):
        pass
    [decided], [committed] = named(exported, "decide"), named(exported, "commit")
    assert linked(decided) == [6]
    assert linked(committed) == [6, own(decided)]


def test_a_turn_that_is_committed_in_parts_is_linked_by_each(
    spans: Spans, exported: InMemorySpanExporter
) -> None:
    replica = Replica()
    spans.heard([submitted(1, 5)])
    with spans.deciding(replica):
        replica.decide()
        replica.pending.clear()
        with spans.committing(1):
            pass
        replica.decide()
    with spans.committing(1):
        pass
    with spans.committing(1):
        pass
    [decided] = named(exported, "decide")
    links = [linked(span) for span in named(exported, "commit")]
    assert links == [[5, own(decided)], [5, own(decided)]]  # nothing is known of the third


def test_links_are_bounded(spans: Spans, exported: InMemorySpanExporter) -> None:
    """The newest of a flood are kept; messages without a span count for nothing."""
    replica = Replica()
    spans.heard(submitted(seq, seq % 3 and seq) for seq in range(1, 1000))
    with spans.deciding(replica):
        replica.decide()
    [decided] = named(exported, "decide")
    assert linked(decided) == [seq for seq in range(1, 1000) if seq % 3][-MOST_LINKS:]


def test_own_commits_and_rubbish_cause_nothing(spans: Spans, exported: InMemorySpanExporter) -> None:
    replica = Replica()
    mine = header_block({"traceparent": parent(3)})
    spans.heard([Entry(1, "scheduler", 1, b"{}", mine), Entry(2, "job.a.b", 2, b'{"traceparent": "no')])
    with spans.deciding(replica):
        replica.decide()
    assert linked(named(exported, "decide")[0]) == []


def test_what_stands_in_a_commit_is_not_its_context(spans: Spans, exported: InMemorySpanExporter) -> None:
    """Its header has that; a manifest in an event may say what it likes."""
    replica = Replica()
    payload = b'{"traceparent": "%s"}' % parent(3).encode()
    spans.heard([Entry(1, "slices", 1, payload, header_block({"traceparent": parent(4)}))])
    spans.heard([Entry(2, "slices", 2, payload)])
    with spans.deciding(replica):
        replica.decide()
    assert linked(named(exported, "decide")[0]) == [4]


def test_of_a_turn_that_is_not_recorded_no_commit_is(exported: InMemorySpanExporter) -> None:
    """Unless something that is recorded has caused it: a span of its own would lead nowhere."""
    provider = TracerProvider(ALWAYS_OFF)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    spans, replica = Spans("scheduler", provider.get_tracer("test")), Replica()
    with spans.deciding(replica):
        replica.decide()
    with spans.committing(1) as span:
        assert not span.get_span_context().is_valid
    spans.heard([submitted(1, 5)])
    with spans.deciding(replica):
        replica.decide()
    with spans.committing(1) as span:
        assert span.get_span_context().is_valid  # what it is, the sampler says
    assert exported.get_finished_spans() == ()


def test_a_new_life_owes_nothing_to_the_one_before(spans: Spans, exported: InMemorySpanExporter) -> None:
    """What was decided and never came into the log is void."""
    replica = Replica()
    spans.heard([submitted(1, 5)])
    with spans.deciding(replica):
        replica.decide()
    with spans.rebuilding():
        pass
    with spans.committing(1):
        pass
    assert named(exported, "commit") == []


def test_without_an_exporter_there_is_no_span() -> None:
    spans, replica = Spans("scheduler"), Replica()
    spans.heard([submitted(1, 5)])
    with spans.rebuilding(), spans.deciding(replica), spans.committing(1) as span:
        assert not span.is_recording()
    assert not spans._heard
