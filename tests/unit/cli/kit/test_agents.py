"""What `sluice get agents` says of flavors."""

import pytest

from sluice.cli.kit.columns import agent_flavors


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
