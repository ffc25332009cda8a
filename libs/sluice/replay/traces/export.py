"""Spans to a collector: OTLP over HTTP, by OpenTelemetry's own exporter."""

from collections.abc import Iterable
from typing import NamedTuple

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from sluice.telemetry.exporting import otlp

__all__ = ["ExportError", "export"]

BATCH = 512
"""Most spans of one request, if no trace alone has more."""


class ExportError(Exception):
    """The collector has not taken the spans."""


class Sent(NamedTuple):
    traces: int
    spans: int


def export(found: Iterable[list[ReadableSpan]], endpoint: str) -> Sent:
    """Send traces to the collector at *endpoint*, `http://host:4318`.

    Raises:
        ExportError: it did not take them all.
        ValueError: the exporter is not installed.
    """
    exporter: SpanExporter = otlp(
        "trace_exporter", "OTLPSpanExporter", endpoint=f"{endpoint.rstrip('/')}/v1/traces"
    )
    traces = spans = 0
    batch: list[ReadableSpan] = []
    try:
        for trace in found:
            if batch and len(batch) + len(trace) > BATCH:
                _send(exporter, batch, endpoint)
                batch = []
            batch += trace
            traces, spans = traces + 1, spans + len(trace)
        if batch:
            _send(exporter, batch, endpoint)
    finally:
        exporter.shutdown()
    return Sent(traces, spans)


def _send(exporter: SpanExporter, batch: list[ReadableSpan], endpoint: str) -> None:
    if exporter.export(batch) is not SpanExportResult.SUCCESS:
        raise ExportError(f"{endpoint} has not taken the traces")
