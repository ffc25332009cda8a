"""Which checks belong to a workload, and what becomes of their states."""

import msgspec
import pytest

from sluice.api.kueue import ClusterQueueSpec
from sluice.core.workload.admission_checks import (
    CheckState,
    max_retry_at,
    relevant_checks,
    reset_on_eviction,
    sync_states,
)

SPEC = msgspec.convert(
    {
        "resourceGroups": [{"flavors": [{"name": "spot"}, {"name": "reserved"}]}],
        "admissionChecksStrategy": {
            "admissionChecks": [
                {"name": "z-all"},
                {"name": "only-spot", "onFlavors": ["spot"]},
                {"name": "both", "onFlavors": ["spot", "reserved"]},
            ]
        },
    },
    ClusterQueueSpec,
)


@pytest.mark.parametrize(
    ("flavors", "expected"),
    [
        (None, ["both", "z-all"]),
        ([], ["z-all"]),
        (["spot"], ["both", "only-spot", "z-all"]),
        (["reserved"], ["both", "z-all"]),
    ],
)
def test_checks_are_relevant_by_flavor(flavors, expected):
    """Without quota only those that cover every flavor are certain (AC1)."""
    assert relevant_checks(SPEC, flavors) == expected


def test_syncing_keeps_what_was_said_and_drops_what_left():
    """New checks begin Pending (AC2)."""
    ready = CheckState("b", "Ready", 5)
    assert sync_states([ready, CheckState("old", "Ready", 5)], ["c", "b"], 9) == [
        ready,
        CheckState("c", "Pending", 9),
    ]


def test_a_reset_keeps_delays_and_counts_retries_in_a_row():
    """requeueAfterSeconds stays, podSetUpdates go (AC4)."""
    retry, ready, pending = reset_on_eviction(
        [
            CheckState("a", "Retry", 1, "no", 30, 2),
            CheckState("b", "Ready", 1, "ok", None, 4),
            CheckState("c", "Pending", 1, "waiting", None, 1),
        ],
        9,
    )
    message = "Reset to Pending after eviction. Previously: "
    assert retry == CheckState("a", "Pending", 9, message + "Retry", 30, 3)
    assert ready == CheckState("b", "Pending", 9, message + "Ready", None, 4)
    assert pending == CheckState("c", "Pending", 1, "waiting", None, 1)


def test_retries_of_what_was_ready_are_forgotten_when_no_check_has_ended_the_attempt():
    (ready,) = reset_on_eviction([CheckState("b", "Ready", 1, "ok", None, 4)], 9)
    assert ready == CheckState("b", "Pending", 9, "Reset to Pending after eviction. Previously: Ready")


def test_what_was_said_of_a_pending_check_with_a_reason_is_taken_back():
    (asked,) = reset_on_eviction(
        [CheckState("a", "Pending", 1, "room", None, 1, (), "PreemptionRequired")], 9
    )
    assert asked == CheckState(
        "a", "Pending", 1, "Reset to Pending after eviction. Previously: PreemptionRequired", None, 1
    )


def test_the_longest_delay_counts_not_the_largest_number():
    """From when each check said so (AC3)."""
    states = [CheckState("a", "Retry", 10_000_000, "", 5), CheckState("b", "Retry", 0, "", 10)]
    assert max_retry_at(states) == 15_000_000
    assert max_retry_at([CheckState("a", "Ready", 10_000_000, "", 5)]) is None
