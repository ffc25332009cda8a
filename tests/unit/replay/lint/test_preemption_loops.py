"""What lint advises about work that is begun and stopped again and again."""

import pytest

from sluice.replay.lint.preemption_loops import _advice


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        ({"NodeFailures": 2, "Preempted": 1}, "See what NodeFailures comes from with `sluice trace`."),
        (
            {"NodeFailures": 1, "Preempted": 1},
            "See what NodeFailures and Preempted come from with `sluice trace`.",
        ),
        (
            {"FlavorMigration": 1, "NodeFailures": 1, "ConcurrentAdmission": 1},
            "See what FlavorMigration, NodeFailures and ConcurrentAdmission come from with `sluice trace`.",
        ),
    ],
)
def test_causes_that_were_as_frequent_are_all_named(reasons: dict[str, int], text: str) -> None:
    assert _advice(reasons) == text
