"""Every event of the catalogue can be told to people."""

import msgspec
import pytest

from sluice.contract.examples import example
from sluice.events.catalogue import EVENTS
from sluice.replay.history.event_text import describe, subject_of


def plain(event):
    return msgspec.json.decode(msgspec.json.encode(event))


@pytest.mark.parametrize("tag", sorted(EVENTS))
def test_every_event_has_a_line(tag):
    """One line without braces of nested data."""
    event = plain(example(EVENTS[tag]))
    line = f"{subject_of(event)}  {describe(event)}"

    assert line.strip()
    assert "\n" not in line


@pytest.mark.parametrize(
    ("count", "line"),
    [
        (0, "held back until 2026-01-06T14:03:00.000000Z"),
        (2, "held back until 2026-01-06T14:03:00.000000Z, failed attempts: 2"),
    ],
)
def test_a_backoff_says_until_when(count, line):
    """A check's Retry is no failed attempt."""
    event = {
        "type": "RequeueBackoffStarted",
        "workload": "default/w",
        "count": count,
        "requeueAt": 1_767_708_180_000_000,
    }
    assert describe(event) == line


def test_a_preemption_names_both_sides():
    """Victim, preemptor and rule stand in one line."""
    event = {
        "type": "Preempted",
        "cause": 7,
        "workload": "default/victim",
        "preemptor": "default/winner",
        "rule": "InCohortReclamation",
        "message": "...",
        "preemptorPath": "/root/a",
        "preempteePath": "/root/b",
    }

    assert subject_of(event) == "default/victim"
    assert describe(event) == "by default/winner, rule InCohortReclamation (/root/a over /root/b)"


def test_a_manifest_without_another_workload_is_told() -> None:
    """Who submits the same job with another size for its next slice sees what became of the present one."""
    assert (
        describe({"type": "WorkloadUpdated", "cause": 1, "workload": "a/b"})
        == "another manifest, of the same workload"
    )


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "WorkloadUpdated", "active": False, "message": "no data"}, "deactivated: no data"),
        ({"type": "WorkloadUpdated", "active": True, "priority": 3}, "activated, priority=3"),
        ({"type": "CheckRequestsUpdated", "attempt": 2, "admitted": True}, "attempt 2: admitted"),
        (
            {"type": "CheckRequestsUpdated", "attempt": 2},
            "attempt 2: edited, or no preemptions pending any more",
        ),
    ],
)
def test_a_change_is_told_by_what_it_means(event, line):
    """A size that has changed issues no preemptions."""
    assert describe({"workload": "default/w", **event}) == line
