"""Ids of traces and spans, worked out of what the log says: made again, they are the same."""

from hashlib import sha256

from opentelemetry.trace import SpanContext, TraceFlags, TraceState

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def root(seed: str, submitter: SpanContext | None) -> SpanContext:
    """Return the context of a job's own span: in the submitter's trace, or at the head of one of its own."""
    if submitter is None:
        return _context(_number(16, seed), _number(8, seed, "job"))
    return _context(submitter.trace_id, _number(8, seed, "job"), submitter.trace_state)


def below(parent: SpanContext, seed: str, *words: object) -> SpanContext:
    """Return the context of another span of the trace; *words* tell it from the others of the job."""
    return _context(parent.trace_id, _number(8, seed, *words), parent.trace_state)


def _context(trace_id: int, span_id: int, state: TraceState | None = None) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED, trace_state=state)


def _number(size: int, *words: object) -> int:
    """Return *size* bytes of a hash; never 0, which means none."""
    digest = sha256("\n".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:size]) or 1
