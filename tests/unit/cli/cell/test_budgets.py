"""What `sluice get budgets` says of used and left is what the check has answered, or that nobody knows."""

from typing import Any

from sluice.cli.cell.budgets import standing_lines
from sluice.cli.kit.columns_checks import budget_left, budget_used


def budget(**status: Any) -> dict[str, Any]:
    return {"kind": "Budget", "metadata": {"name": "a"}, "spec": {}, **({"status": status} if status else {})}


def limit(used: str, left: str, **what: str) -> dict[str, str]:
    return {"limit": "100.000000", "used": used, "committed": "0.000000", "left": left, **what}


def test_each_limit_in_its_own_unit() -> None:
    """Money has two digits, hours three and what they are of, in the order of the limits."""
    found = budget(
        limits=[
            limit("98.199000", "1.801000", unit="EUR"),
            limit("1.000400", "98.999600", unit="h", resource="nvidia.com/gpu", flavor="h100"),
        ]
    )
    assert budget_used(found) == "98.20 EUR, 1.000h nvidia.com/gpu on h100"
    assert budget_left(found) == "1.80 EUR, 99.000h nvidia.com/gpu on h100"
    assert "  100.00 EUR" in "\n".join(standing_lines(found))


def test_what_nobody_knows_is_not_zero() -> None:
    """Without the check, or where it cannot read consumption, there are no numbers."""
    for unknown in (budget(), budget(problem="consumption cannot be read", held=2)):
        assert budget_used(unknown) == budget_left(unknown) == "<unknown>"
    assert "consumption cannot be read" in standing_lines(budget(problem="consumption cannot be read"))[0]
