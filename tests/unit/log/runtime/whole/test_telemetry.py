"""Logs and metrics."""

import io
import json
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import NonRecordingSpan, SpanContext, use_span

from sluice.core.views.totals import TOTALS, count, series
from sluice.log.runtime.metrics import COMMIT_BUCKETS_S, RunnerMetrics
from sluice.log.writer import Written
from sluice.telemetry import configure_logs, start
from sluice.telemetry.exporting import DEFAULT_BOUNDS_S, ProcessTelemetry


@pytest.fixture
def _fresh_structlog():
    yield
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()


@pytest.mark.usefixtures("_fresh_structlog")
def test_json_lines_name_service_and_fields():
    out = io.StringIO()
    configure_logs("scheduler", "a-1", {"SLUICE_LOG_FORMAT": "json"}, out)
    structlog.get_logger("x").info("committed", events=3, odd=object)
    structlog.get_logger("x").debug("hidden")

    (line,) = out.getvalue().splitlines()
    entry = json.loads(line)
    assert (entry["service"], entry["instance"], entry["event"], entry["events"]) == (
        "scheduler",
        "a-1",
        "committed",
        3,
    )


@pytest.mark.usefixtures("_fresh_structlog")
@pytest.mark.parametrize("name", ["SLUICE_LOG_LEVEL", "SLUICE_LOG_FORMAT", "SLUICE_OTEL"])
def test_unknown_settings_are_named(name):
    with pytest.raises(ValueError, match=f"{name}='loud'"):
        start("scheduler", "a", {name: "loud"})


def test_runner_numbers_are_exported_when_asked():
    telemetry = ProcessTelemetry("scheduler", "a", "memory")
    metrics = RunnerMetrics("scheduler", role="leader")
    telemetry.observe(metrics)
    metrics.folded = 7
    metrics.committed(Written(3, (), 0.0015))

    assert isinstance(telemetry.reader, InMemoryMetricReader)
    data: Any = telemetry.reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    values = {m.name: [(p.value, dict(p.attributes)) for p in m.data.data_points] for m in data}

    assert values["sluice_events_folded"] == [(7, {"writer": "scheduler"})]
    assert values["sluice_leader"][0][0] == 1
    assert (0, {"writer": "scheduler", "le": "0.001"}) in values["sluice_commit_duration_bucket"]
    assert (1, {"writer": "scheduler", "le": "0.002"}) in values["sluice_commit_duration_bucket"]
    telemetry.close()


def test_both_sides_agree_on_the_histogram():
    """The runner's buckets and the exported bounds are the same; neither package imports the other."""
    assert DEFAULT_BOUNDS_S == COMMIT_BUCKETS_S


@pytest.mark.usefixtures("_fresh_structlog")
def test_a_line_says_in_which_span_it_was_written():
    """As hexadecimal numbers, which is how collectors show them; a line outside of spans has none."""
    out = io.StringIO()
    configure_logs("scheduler", "a-1", {"SLUICE_LOG_FORMAT": "json"}, out)
    with use_span(NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=True))):
        structlog.get_logger("x").info("within")
    structlog.get_logger("x").info("without")

    within, without = map(json.loads, out.getvalue().splitlines())
    assert (within["trace_id"], within["span_id"]) == (f"{0xABC:032x}", f"{0xDEF:016x}")
    assert without.keys().isdisjoint({"trace_id", "span_id"})


def test_totals_are_exported_when_asked():
    """Each metric shows its own series, with its labels."""
    telemetry = ProcessTelemetry("api", "a", "memory")
    totals: dict[tuple[str, ...], int] = {("sluice_workload_slices_waited_seconds_total", "q"): 1_500_000}
    count(totals, "sluice_workload_slices_resized_total", "q", "admitted", n=2)
    metrics = [(name, total.unit, total.text) for name, total in TOTALS.items()]
    telemetry.count(lambda: series(totals), metrics)

    assert isinstance(telemetry.reader, InMemoryMetricReader)
    data: Any = telemetry.reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    values = {m.name: [(p.value, dict(p.attributes)) for p in m.data.data_points] for m in data}

    assert values == {
        "sluice_workload_slices_waited_seconds_total": [(1.5, {"cluster_queue": "q"})],
        "sluice_workload_slices_resized_total": [(2, {"cluster_queue": "q", "state": "admitted"})],
    }
    telemetry.close()
