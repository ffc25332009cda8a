"""Spans of what a runner does, each linked to what caused it. Without an exporter they cost nothing."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, Tracer

from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.nats.protocol import headers_of
from sluice.protocol.tracing import context_of, said_in

MOST_LINKS = 64
"""Of one span, the newest: who submits ten thousand jobs at once does not look at each link."""


Contexts = dict[tuple[int, int], SpanContext]
"""Spans by their ids, the newest last."""


class Deciding(Protocol):
    """Of a replica: how many steps it has decided, and those that are in no commit yet."""

    decided: int
    pending: list[Step]


class Spans:
    """Spans of the work of *writer*.

    Work is done in batches, for many traces at a time. So it is no child of any of them, but a trace of its
    own with links: a commit's to the decisions that it has, both to the messages that brought them about.
    """

    def __init__(self, writer: str, tracer: Tracer | None = None) -> None:
        provider = trace.get_tracer_provider()
        idle = isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
        self._tracer = tracer or (None if idle else provider.get_tracer("sluice.log"))
        self._writer = writer
        self._heard: Contexts = {}
        """Spans of what came in since something was decided."""
        self._decided: Contexts = {}
        """Decisions that are in no commit yet, and what caused them."""

    def heard(self, entries: Iterable[Entry]) -> None:
        """Take note of the spans in which inputs were made."""
        if self._tracer is None:
            return
        for entry in entries:
            if entry.suffix == self._writer:
                continue
            said = headers_of(entry.header) if b"traceparent:" in entry.header else said_in(entry.payload)
            context = context_of(said)
            if context is not None:
                _add(self._heard, context)

    @contextmanager
    def rebuilding(self) -> Iterator[None]:
        """Have the beginning of a life in a span; what an earlier one had decided is void."""
        if self._tracer is None:
            yield
            return
        self._heard, self._decided = {}, {}
        with trace.use_span(self._start("rebuild", ()), end_on_exit=True):
            yield

    @contextmanager
    def deciding(self, replica: Deciding) -> Iterator[None]:
        """Have a turn of decisions in a span. A turn without any leaves none."""
        if self._tracer is None:
            yield
            return
        before = replica.decided
        span = self._start("decide", self._heard.values())
        contexts = (*self._heard.values(), span.get_span_context())
        self._heard = {}
        # Now, as a part of the turn may be committed before its end.
        _add(self._decided, *contexts)
        with trace.use_span(span):
            yield
        steps = replica.decided - before
        if not steps:
            # A span that is not ended is not exported.
            for context in contexts:
                self._decided.pop(_key(context), None)
            return
        if replica.pending:
            _add(self._decided, *contexts)
        span.set_attribute("sluice.steps", steps)
        span.end()

    @contextmanager
    def committing(self, steps: int) -> Iterator[Span]:
        """Have a commit in a span."""
        if self._tracer is None:
            yield trace.INVALID_SPAN
            return
        span = self._start("commit", self._decided.values())
        self._decided = {}
        span.set_attribute("sluice.steps", steps)
        with trace.use_span(span, end_on_exit=True):
            yield span

    def _start(self, name: str, causes: Iterable[SpanContext]) -> Span:
        assert self._tracer is not None
        links = [Link(context) for context in causes]
        # Of no parent: it would be what happens to be under way where the task was begun.
        return self._tracer.start_span(
            name, Context(), links=links, attributes={"sluice.writer": self._writer}
        )


def _key(context: SpanContext) -> tuple[int, int]:
    return context.trace_id, context.span_id


def _add(to: Contexts, *contexts: SpanContext) -> None:
    for context in contexts:
        to.pop(_key(context), None)
        to[_key(context)] = context
        if len(to) > MOST_LINKS:
            del to[next(iter(to))]
