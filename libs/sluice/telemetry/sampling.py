"""Of which spans of services' work a record is made, where OTEL_TRACES_SAMPLER does not say it."""

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

SHARE = 1 / 16
"""Of the turns and commits that nothing sampled has caused: enough to see how long they take."""
FREQUENT = frozenset({"decide", "commit"})


class CausedSampler(Sampler):
    """Records what something recorded has caused: as a parent-based sampler does, by links.

    Of turns and commits without such a cause, of which a busy cell has hundreds a second, it records a share;
    all else is rare, and recorded.
    """

    def __init__(self, share: float = SHARE) -> None:
        self._share = TraceIdRatioBased(share)

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        sampler: Sampler = ALWAYS_ON
        if links:
            sampler = ALWAYS_ON if any(link.context.trace_flags.sampled for link in links) else ALWAYS_OFF
        elif name in FREQUENT:
            sampler = self._share
        return sampler.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"CausedSampler{{{self._share.get_description()}}}"
