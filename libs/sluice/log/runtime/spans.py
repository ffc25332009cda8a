"""Spans of what a runner does, each linked to what caused it. Without an exporter they cost nothing."""

import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, Tracer

from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.nats.protocol import headers_of
from sluice.protocol.subjects import COMMITS
from sluice.protocol.tracing import context_of, said_in

MOST_LINKS = 64
"""Of one span, the newest: who submits ten thousand jobs at once does not look at each link."""


_IN_HEADER = b"traceparent:"
_CONTEXT: Final = re.compile(rb'traceparent"?:\s*"?[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]([0-9a-f])')
"""In a header or an event; the group has the flag that says whether the span is recorded."""

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
        self._heard: deque[Entry] = deque(maxlen=MOST_LINKS)
        """What came in since the last turn, and names the span in which it was made, which is recorded."""
        self._began_ns = 0
        """When the turn under way began; 0 without one."""
        self._turn: Span | None = None
        """The span of that turn, once there is something to be said of it."""
        self._caused: tuple[SpanContext, ...] = ()
        """What that turn was caused by."""
        self._decided: Contexts = {}
        """Decisions that are in no commit yet, and what caused them."""

    def heard(self, entries: Iterable[Entry]) -> None:
        """Take note of the spans in which inputs were made."""
        if self._tracer is None:
            return
        # Read only when something was decided: most of what a service hears is not for it.
        self._heard.extend(
            entry
            for entry in entries
            if entry.suffix != self._writer
            # A commit names its span in the header; its payload, which is long, is not searched.
            and (_recorded(entry.header) or (entry.suffix not in COMMITS and _recorded(entry.payload)))
        )

    @contextmanager
    def rebuilding(self) -> Iterator[None]:
        """Have the beginning of a life in a span; what an earlier one had decided is void."""
        if self._tracer is None:
            yield
            return
        self._heard.clear()
        self._decided = {}
        self._began_ns, self._turn = 0, None
        with trace.use_span(self._start("rebuild", ()), end_on_exit=True):
            yield

    @contextmanager
    def deciding(self, replica: Deciding) -> Iterator[None]:
        """Leave a span of a turn, if it decided anything. Meanwhile none is current: most have none."""
        if self._tracer is None:
            yield
            return
        before = replica.decided
        self._began_ns = time.time_ns()
        try:
            yield
            steps = replica.decided - before
            if steps:
                span = self._turn or self._begin_turn()
                if replica.pending:
                    self._owe(span)
                span.set_attribute("sluice.steps", steps)
                span.end()
        finally:
            self._began_ns, self._turn, self._caused = 0, None, ()
            self._heard.clear()

    def _begin_turn(self) -> Span:
        """Make the span of the turn under way; most turns need none."""
        found: Contexts = {}
        for entry in self._heard:
            said = headers_of(entry.header) if _IN_HEADER in entry.header else said_in(entry.payload)
            context = context_of(said)
            if context is not None:
                _add(found, context)
        self._caused = tuple(found.values())
        self._turn = self._start("decide", self._caused, self._began_ns)
        return self._turn

    def _owe(self, turn: Span) -> None:
        """Note for the next commit what brought it about, as far as it is recorded."""
        _add(self._decided, *self._caused)
        if turn.is_recording():
            _add(self._decided, turn.get_span_context())

    @contextmanager
    def committing(self, steps: int) -> Iterator[Span]:
        """Have a commit in a span, if anything is recorded that brought it about: mostly nothing is."""
        if self._tracer is None:
            yield trace.INVALID_SPAN
            return
        if self._began_ns:
            # A part of a turn is committed before its end.
            self._owe(self._turn or self._begin_turn())
        if not self._decided:
            yield trace.INVALID_SPAN
            return
        span = self._start("commit", self._decided.values())
        self._decided = {}
        span.set_attribute("sluice.steps", steps)
        with trace.use_span(span, end_on_exit=True):
            yield span

    def _start(self, name: str, causes: Iterable[SpanContext], begin_ns: int | None = None) -> Span:
        assert self._tracer is not None
        links = [Link(context) for context in causes]
        # Of no parent: it would be what happens to be under way where the task was begun.
        return self._tracer.start_span(
            name,
            Context(),
            links=links,
            attributes={"sluice.writer": self._writer},
            start_time=begin_ns,
        )


def _recorded(data: bytes) -> bool:
    """Is a message of a span that is recorded? To be linked to others leads nowhere."""
    found = _CONTEXT.search(data)
    return found is not None and int(found[1], 16) % 2 == 1


def _key(context: SpanContext) -> tuple[int, int]:
    return context.trace_id, context.span_id


def _add(to: Contexts, *contexts: SpanContext) -> None:
    for context in contexts:
        to.pop(_key(context), None)
        to[_key(context)] = context
        if len(to) > MOST_LINKS:
            del to[next(iter(to))]
