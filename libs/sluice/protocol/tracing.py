"""Trace context of a message: `traceparent` and `tracestate`, as W3C and CloudEvents have them.

Messages from outside carry them as attributes of the event (CloudEvents' extension *distributed tracing*),
commits as headers of the message, so that what is decided stays free of them. No decider looks at either.
"""

import contextlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from sluice.api.errors import UNREADABLE

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

__all__ = ["carried", "context_of", "from_environment", "said_in"]

FIELDS = ("traceparent", "tracestate")


class _Traced(msgspec.Struct):
    traceparent: str = ""
    tracestate: str = ""


_TRACED = msgspec.json.Decoder(_Traced)


def carried(*, recorded: bool = False) -> dict[str, str]:
    """Return what a message says of the span that is current here, {} without one.

    *recorded*: {}, too, if nobody records that span.
    """
    # Whoever has a current span has imported this; nobody else is to wait for the import.
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace import get_current_span

    span = get_current_span().get_span_context()
    if not span.is_valid or (recorded and not span.trace_flags.sampled):
        return {}
    parent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    state = span.trace_state.to_header()
    return {"traceparent": parent, "tracestate": state} if state else {"traceparent": parent}


def from_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return what TRACEPARENT and TRACESTATE say of the span that started this process, {} without one."""
    said = {name: env[name.upper()] for name in FIELDS if env.get(name.upper())}
    return said if context_of(said) is not None else {}


def said_in(payload: bytes) -> dict[str, str]:
    """Return what a message from outside says of the trace in which it was made."""
    if b'"traceparent"' in payload:
        with contextlib.suppress(*UNREADABLE):
            found = _TRACED.decode(payload)
            return {name: value for name in FIELDS if (value := getattr(found, name))}
    return {}


def context_of(said: Mapping[str, str]) -> "SpanContext | None":
    """Return the span that is meant; None if it is no valid one, which is as none."""
    if not said.get("traceparent"):
        return None
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found = get_current_span(TraceContextTextMapPropagator().extract(said)).get_span_context()
    return found if found.is_valid else None
