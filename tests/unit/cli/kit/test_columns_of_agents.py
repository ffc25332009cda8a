"""What `sluice get agents` says of flavors, and of what becomes of jobs."""

import pytest

from sluice.cli.kit.columns import agent_flavors, agent_on_loss


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"flavors": ["spot", "fast"]}, "spot,fast"),
        ({"flavors": []}, "<any>"),
        ({"phase": "Lost"}, "<unknown>"),
        (None, "<unknown>"),
    ],
)
def test_any_is_not_unknown(status: dict[str, object] | None, shown: str) -> None:
    """None named means all; nothing heard means nothing."""
    assert agent_flavors({"kind": "Agent", "status": status}) == shown


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, "Requeue"),
        ({"onLoss": {"policy": "Wait"}}, "Wait"),
        ({"onLoss": {"policy": "Requeue", "afterSeconds": 60.0}, "lease": True}, "Requeue 60s (lease)"),
    ],
)
def test_what_becomes_of_its_jobs(status: dict[str, object], shown: str) -> None:
    """By default, what the cell has."""
    assert agent_on_loss({"kind": "Agent", "status": status}) == shown
