"""Services that export to a collector (SLUICE_OTEL=otlp): what they count and do arrives there."""

import json
from pathlib import Path

import pytest
import yaml
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from sluice.sdk import Client
from sluice.telemetry.meters import COUNTERS, GAUGES
from tests.support.command import sluice
from tests.support.otlp import Collector, collector
from tests.support.system import ROOT, System
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nats

QUICK = {"OTEL_METRIC_EXPORT_INTERVAL": "200", "OTEL_BSP_SCHEDULE_DELAY": "200"}


def exporting(to: Collector) -> dict[str, str]:
    return {"SLUICE_OTEL": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": to.url, **QUICK}


def test_metrics_and_spans_of_services_arrive_at_a_collector(tmp_path: Path) -> None:
    with collector() as found, System(tmp_path) as system:
        system.start("scheduler", exporting(found))
        wanted = {("sluice-scheduler", name) for name, *_ in (*COUNTERS, *GAUGES)}
        with system.logs_of_failures():
            wait_until(lambda: wanted <= found.metrics())
            wait_until(lambda: "rebuild" in {span.name for span in found.spans()})
        assert {each["service.name"] for each in found.resources()} == {"sluice-scheduler"}


def _of(found: Collector, writer: str, name: str) -> list[Span]:
    """Return the spans of a service's work."""
    return [
        span
        for span in found.spans()
        if span.name == name
        and any(a.key == "sluice.writer" and a.value.string_value == writer for a in span.attributes)
    ]


def _linked(spans: list[Span], traces: set[bytes]) -> set[bytes]:
    """Return the traces of those that are linked to one of *traces*."""
    return {span.trace_id for span in spans if any(link.trace_id in traces for link in span.links)}


def test_work_is_linked_from_the_submitter_on(tmp_path: Path) -> None:
    """From a span of the submitter's, by the SDK and by the command, to the scheduler's commit."""
    by_sdk, by_command = 0xAAAA_0000_0000_0000_0000_0000_0000_0001, 0xBBBB_0000_0000_0000_0000_0000_0000_0002
    examples = ROOT / "examples"
    spoken = yaml.safe_load((examples / "hello.yaml").read_text())
    spoken["metadata"]["name"] = "spoken"
    with collector() as found, System(tmp_path) as system, system.logs_of_failures():
        for service in ("slice_aggregator", "scheduler", "api"):
            system.start(service, exporting(found))
        queues = str(examples / "kueue" / "single-cluster-queue.yaml")
        wait_until(lambda: sluice("--server", system.url, "apply", "-f", queues).code == 0)
        recorded = SpanContext(by_sdk, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        with (
            use_span(NonRecordingSpan(recorded)),
            Client(system.url) as client,
        ):
            client.submit(spoken)
        env = {"TRACEPARENT": f"00-{by_command:032x}-{2:016x}-01"}
        sluice("--server", system.url, "submit", "-f", str(examples / "hello.yaml"), env=env).ok()

        def ends(trace: int) -> set[bytes]:
            begin = {trace.to_bytes(16)}
            answers = _linked(_of(found, "slices", "commit"), begin)
            return _linked(_of(found, "scheduler", "commit"), answers)

        wait_until(lambda: ends(by_sdk) and ends(by_command))
        told = sluice("--server", system.url, "replay", "traces", "hello", "-o", "json").ok()
        assert f"{by_command:032x}" in json.dumps(told.json)
