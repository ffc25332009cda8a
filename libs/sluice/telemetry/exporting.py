"""Metrics and traces with OpenTelemetry's SDK. Imported only when something is exported."""

import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    InMemoryMetricReader,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from .meters import Counted, RunnerInstruments, Series, observe_totals
from .sampling import CausedSampler

DEFAULT_BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class ProcessTelemetry:
    """Telemetry of one process; `close` it at the end.

    *exporter*: memory (for tests: `reader` and `spans`), console, or otlp, which needs the
    extra `otel` and takes its settings from the standard OTEL_* variables. Without OTEL_TRACES_SAMPLER,
    `CausedSampler` says which spans are recorded; in memory all are.
    """

    def __init__(self, service: str, instance: str, exporter: str) -> None:
        self.spans: InMemorySpanExporter | None = None
        resource = Resource.create({"service.name": f"sluice-{service}", "service.instance.id": instance})
        self.reader = _metric_reader(exporter)
        self._meters = MeterProvider([self.reader], resource)
        chosen = exporter == "memory" or os.environ.get("OTEL_TRACES_SAMPLER")
        self._tracers = TracerProvider(None if chosen else CausedSampler(), resource)
        self._tracers.add_span_processor(self._span_processor(exporter))
        self._runners = RunnerInstruments(self._meters.get_meter("sluice"), DEFAULT_BOUNDS_S)

    def install(self) -> None:
        """Make the providers those that `opentelemetry.metrics` and `.trace` give out."""
        metrics.set_meter_provider(self._meters)
        trace.set_tracer_provider(self._tracers)

    def _span_processor(self, exporter: str) -> Any:
        if exporter == "memory":
            self.spans = InMemorySpanExporter()
            return SimpleSpanProcessor(self.spans)
        if exporter == "console":
            return BatchSpanProcessor(ConsoleSpanExporter())
        return BatchSpanProcessor(otlp("trace_exporter", "OTLPSpanExporter"))

    def observe(self, metrics: Counted) -> None:
        """Export the numbers of a runner."""
        self._runners.add(metrics)

    def count(self, totals: Callable[[], Iterable[Series]], metrics: Sequence[tuple[str, str, str]]) -> None:
        """Export totals that *totals* gives when asked; *metrics* are the name, unit and text of each."""
        observe_totals(self._meters.get_meter("sluice"), totals, metrics)

    def close(self) -> None:
        """Export what is left."""
        self._meters.shutdown()
        self._tracers.shutdown()


def _metric_reader(exporter: str) -> MetricReader:
    if exporter == "memory":
        return InMemoryMetricReader()
    if exporter == "console":
        return PeriodicExportingMetricReader(ConsoleMetricExporter())
    return PeriodicExportingMetricReader(otlp("metric_exporter", "OTLPMetricExporter"))


def otlp(module: str, name: str, **settings: Any) -> Any:
    """Return an exporter of OpenTelemetry's over HTTP; what *settings* leave out is in OTEL_* variables.

    Raises:
        ValueError: its package is not installed.
    """
    package = "opentelemetry.exporter.otlp.proto.http"
    try:
        return getattr(importlib.import_module(f"{package}.{module}"), name)(**settings)
    except ImportError as error:
        raise ValueError("OTLP needs the extra: pip install 'sluice-admission[otel]'") from error
