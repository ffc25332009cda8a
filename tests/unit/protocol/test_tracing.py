"""What messages say of the trace in which they were made."""

import subprocess
import sys

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, use_span

from sluice.events.codec import CloudEvent, decode_message, encode_message
from sluice.protocol.tracing import carried, context_of, from_environment, said_in

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SPAN = SpanContext(
    0x0AF7651916CD43DD8448EB211C80319C,
    0xB7AD6B7169203331,
    is_remote=False,
    trace_flags=TraceFlags(TraceFlags.SAMPLED),
    trace_state=TraceState([("vendor", "1")]),
)


def message(extensions: dict[str, str] | None = None) -> bytes:
    return encode_message(
        message_id="1", source="s", event_type="T", subject="a/b", at=1, data={"x": 1}, extensions=extensions
    )


def test_a_message_names_the_span_in_which_it_was_made() -> None:
    """And who reads it finds that span."""
    with use_span(NonRecordingSpan(SPAN)):
        said = carried()
    assert said == {"traceparent": PARENT, "tracestate": "vendor=1"}
    found = context_of(said_in(message(said)))
    assert found is not None
    assert (found.trace_id, found.span_id, found.trace_flags) == (SPAN.trace_id, SPAN.span_id, 1)
    assert found.trace_state == SPAN.trace_state


def test_without_a_span_messages_are_as_ever() -> None:
    assert carried() == {}
    assert message(carried()) == message()
    assert said_in(message()) == {}


def test_services_read_the_same_message() -> None:
    """What they decode has no trace context, so nothing that they decide depends on it."""
    traced = decode_message(message({"traceparent": PARENT}))
    assert isinstance(traced, CloudEvent)
    assert traced == decode_message(message())


@pytest.mark.parametrize(
    "value", ["", "00-1", PARENT.replace("0af7", "zzzz"), "00-" + "0" * 32 + PARENT[35:]]
)
def test_what_is_no_traceparent_is_as_none(value: str) -> None:
    assert context_of({"traceparent": value}) is None
    assert from_environment({"TRACEPARENT": value, "TRACESTATE": "a=1"}) == {}


@pytest.mark.parametrize("payload", [b"", b'"traceparent"', b'{"traceparent": 7}', b'{"traceparent": [", }'])
def test_a_message_that_cannot_be_read_says_nothing(payload: bytes) -> None:
    assert said_in(payload) == {}


def test_a_process_knows_the_span_that_started_it() -> None:
    """By the variables that OpenTelemetry has for it."""
    assert from_environment({"TRACEPARENT": PARENT, "PATH": "/"}) == {"traceparent": PARENT}
    assert from_environment({}) == {}


def test_who_has_no_spans_does_not_wait_for_opentelemetry() -> None:
    """Neither an import of the SDK or the command, nor a message, imports it."""
    program = (
        "import sys, sluice.sdk, sluice.cli.main, sluice.cli.cell.publish\n"
        "from sluice.protocol.tracing import carried, from_environment\n"
        "assert carried() == from_environment({}) == {}\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
