"""Prometheus' text format."""

from sluice.telemetry.exposition import family


def test_numbers_are_whole_and_labels_escaped() -> None:
    """A counter of millions keeps its last digit; text is told as it is."""
    values: list[tuple[dict[str, str], float | str]] = [
        ({"a": 'x"\\\n'}, 1_234_567.0),
        ({"a": "y", "b": ""}, 0.25),
        ({}, "3.000001"),
    ]

    assert family("n_total", "counter", "What it counts", values).splitlines() == [
        "# HELP n_total What it counts",
        "# TYPE n_total counter",
        'n_total{a="x\\"\\\\\\n"} 1234567',
        'n_total{a="y",b=""} 0.25',
        "n_total{} 3.000001",
    ]
