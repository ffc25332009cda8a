"""The page of budgets says what is used, committed and left."""

from sluice.services.check_budget.page import Metrics, report
from sluice.telemetry.http import prometheus
from tests.unit.services.check_budget.budget_ledger import HOUR, World


def test_report() -> None:
    world = World()
    world.budget(cost="10.5", limits={"cost": "10.5", "resourceHours": [{"resource": "cpu", "hours": 100}]})
    world.budget("other", source={"prometheus": {"url": "http://p", "query": "x"}})
    world.start("old", cores=3, max_s=3 * 3600)
    world.now += HOUR
    world.ask(world.request("w", max_execution_time_s=3600))

    by_name = {one["name"]: one for one in report(world.ledger, world.now)}
    assert list(by_name) == ["other", "team-a"]
    assert not by_name["team-a"]["usedUp"]
    assert by_name["team-a"]["limits"] == [
        {
            "unit": "EUR",
            "limit": "10.500000",
            "used": "3.000000",
            "committed": "6.000000",
            "left": "1.500000",
        },
        {
            "unit": "h",
            "resource": "cpu",
            "limit": "100.000000",
            "used": "3.000000",
            "committed": "6.000000",
            "left": "91.000000",
        },
    ]
    assert by_name["other"] == {
        "name": "other",
        "held": 1,
        "problem": "consumption cannot be read: it has not been read yet",
    }


def test_metrics() -> None:
    world = World()
    world.budget('odd"name', cost=2)
    world.start("old", cores=1)
    world.now += HOUR // 3

    lines = prometheus(Metrics(world.ledger, world.now)).body.decode().splitlines()
    labels = '{budget="odd\\"name",flavor="",resource="",unit="EUR"}'
    assert f"sluice_budget_limit{labels} 2.0" in lines
    assert f"sluice_budget_used{labels} 0.333333" in lines
    assert f"sluice_budget_committed{labels} 0.0" in lines
