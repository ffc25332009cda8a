"""Totals as instruments of OpenTelemetry."""

from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from sluice.telemetry.meters import Series, observe_totals


def test_totals_are_asked_for_once_an_export() -> None:
    """They are many, sorted, and each instrument shows a few of them."""
    asked = 0

    def totals() -> Iterator[Series]:
        nonlocal asked
        asked += 1
        yield "a", {"queue": "x"}, asked
        yield "b", {"queue": "x"}, 10 * asked
        yield "b", {"queue": "y"}, 20 * asked
        yield "nobody's", {}, 1

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    observe_totals(provider.get_meter("test"), totals, [("a", "1", ""), ("b", "1", ""), ("none", "1", "")])
    for number in (1, 2):
        data: Any = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        shown = {each.name: [point.value for point in each.data.data_points] for each in metrics}
        assert {name: values for name, values in shown.items() if values} == {
            "a": [number],
            "b": [10 * number, 20 * number],
        }
        assert asked == number
    provider.shutdown()
