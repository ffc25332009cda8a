"""The budget without a server: `python -m pytest`."""

import asyncio
from pathlib import Path
from typing import Any

import budget
import pytest

from sluice.sdk.checks.testing import CheckTester, make_request


@pytest.fixture(autouse=True)
def _database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "DATABASE", str(tmp_path / "budget.db"))
    set_budget(10)


def set_budget(core_hours: float) -> None:
    connection = budget.database()
    with connection:
        connection.execute("insert or replace into budgets values ('team-a', ?)", [core_hours])
    connection.close()


def job(name: str, cores: int, **more: Any) -> Any:
    return make_request(namespace="team-a", name=name, requests={"cpu": 1000 * cores}, **more)


def test_what_does_not_fit_waits_until_the_budget_is_raised() -> None:
    async def story() -> list[str]:
        async with CheckTester(budget.app) as tester:
            await tester.ask(job("first", 8))
            await tester.ask(job("second", 8))
            set_budget(20)
            await tester.advance(30)
        return [f"{verdict.workload} {verdict.state}" for verdict in tester.verdicts]

    assert asyncio.run(story()) == ["team-a/first Ready", "team-a/second Pending", "team-a/second Ready"]


def test_a_job_that_never_ran_is_not_charged() -> None:
    async def story() -> str:
        async with CheckTester(budget.app) as tester:
            first = job("first", 8)
            await tester.ask(first)
            await tester.withdraw(first)
            return (await tester.ask(job("second", 8))).state

    assert asyncio.run(story()) == "Ready"


def test_a_job_that_ran_is() -> None:
    async def story() -> str:
        async with CheckTester(budget.app) as tester:
            first = job("first", 8)
            await tester.ask(first)
            await tester.admit(first)
            await tester.withdraw(first)
            return (await tester.ask(job("second", 8))).state

    assert asyncio.run(story()) == "Pending"


def test_nobody_runs_without_a_budget() -> None:
    async def story() -> str:
        async with CheckTester(budget.app) as tester:
            return (await tester.ask(make_request(namespace="team-b"))).message

    assert asyncio.run(story()) == "namespace team-b has no budget"
