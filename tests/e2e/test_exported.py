"""Services that export to a collector (SLUICE_OTEL=otlp): what they count arrives there."""

from pathlib import Path

import pytest

from sluice.telemetry.meters import COUNTERS, GAUGES
from tests.support.otlp import collector
from tests.support.system import System
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nats


def test_metrics_and_spans_of_services_arrive_at_a_collector(tmp_path: Path) -> None:
    with collector() as found, System(tmp_path) as system:
        env = {
            "SLUICE_OTEL": "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": found.url,
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        system.start("scheduler", env)
        wanted = {("sluice-scheduler", name) for name, *_ in (*COUNTERS, *GAUGES)}
        with system.logs_of_failures():
            wait_until(lambda: wanted <= found.metrics())
            wait_until(lambda: "rebuild" in {span.name for span in found.spans()})
        assert {each["service.name"] for each in found.resources()} == {"sluice-scheduler"}
