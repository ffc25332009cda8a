"""What an object says of itself, by the rules of its kind."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from sluice.api.mapped import StatusRule, StatusRules, message_of, state_of
from tests.support.own_kinds import mapping
from tests.unit.api.mapped.test_rules import JSON

RULES = msgspec.convert(mapping()["status"], StatusRules)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, ""),
        ({"conditions": [{"type": "Running", "status": "False"}]}, ""),
        ({"conditions": [{"type": "Running", "status": "True"}]}, "Ready"),
        ({"conditions": [{"type": "Running", "status": "True"}], "phase": "Done"}, "Succeeded"),
        ({"phase": "Lost"}, "Failed"),
        ({"phase": "Elsewhere"}, ""),
    ],
)
def test_an_end_counts_before_readiness(status: dict[str, Any], state: str) -> None:
    assert state_of(RULES, {"status": status}) == state


def test_numbers_and_truth_values_are_compared_as_json_has_them() -> None:
    rules = StatusRules(
        failed=[StatusRule(path="status.code", values=["7"])],
        ready=[StatusRule(path="status.up", values=["true"])],
    )
    assert state_of(rules, {"status": {"code": 7}}) == "Failed"
    assert state_of(rules, {"status": {"up": True}}) == "Ready"
    assert state_of(rules, {"status": {"up": False}}) == ""


@given(JSON)
def test_whatever_an_object_says_is_no_error(value: Any) -> None:
    assert state_of(RULES, value) in ("", "Ready", "Succeeded", "Failed")
    assert message_of(RULES, {"status": {"why": value}}) == (value if isinstance(value, str) else "")
