"""Which spans of services' work are recorded."""

import pytest
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, SpanContext, TraceFlags

from sluice.telemetry.sampling import CausedSampler

LOW, HIGH = 1, (1 << 64) - 1
"""Trace ids that a share has, and has not."""


def caused_by(*flags: int) -> list[Link]:
    return [Link(SpanContext(0xA, 0xB, is_remote=True, trace_flags=TraceFlags(flag))) for flag in flags]


@pytest.mark.parametrize(
    ("name", "trace_id", "links", "recorded"),
    [
        ("decide", LOW, [], True),
        ("decide", HIGH, [], False),
        ("rebuild", HIGH, [], True),
        ("commit", HIGH, caused_by(0, 1), True),
        ("commit", LOW, caused_by(0, 0), False),
    ],
)
def test_what_something_recorded_has_caused_is_recorded(
    name: str, trace_id: int, links: list[Link], recorded: bool
) -> None:
    found = CausedSampler().should_sample(None, trace_id, name, links=links)
    assert (found.decision is Decision.RECORD_AND_SAMPLE) == recorded
