"""How budgets stand: the numbers of the check that keeps them, at each moment, and who consumes."""

from typing import Any

import pytest

from sluice.console.budgets.books import Books
from sluice.core.budgets import consumption
from sluice.events.codec import decode_commit
from sluice.log.contract import Entry
from sluice.replay.source.source import ListSource
from sluice.services.check_budget.ledger import Ledger
from sluice.services.check_budget.page import report
from tests.unit.console.budget_log import entries
from tests.unit.console.conftest import Serve

READS = ("config", "slices", "variants", "scheduler")


async def _budgets(serve: Serve, log: list[Entry], at: str = "") -> Any:
    client = await serve(ListSource(log))
    async with client.get("/api/v1/budgets", params={"at": at} if at else {}) as response:
        assert response.status == 200, await response.text()
        return await response.json()


def _judged(log: list[Entry], now: int) -> dict[str, Any]:
    """Return what the check itself says."""
    ledger = Ledger()
    for entry in log:
        if entry.suffix in READS:
            for step in decode_commit(entry.payload, entry.suffix, entry.seq).steps:
                for event in step.events:
                    ledger.apply(event, entry.seq, step.at)
    return {one["name"]: one for one in report(ledger, now)}


async def test_it_stands_as_the_check_says_at_each_moment(serve: Serve) -> None:
    """Used, committed and left, to six digits, whichever moment is asked about, in whichever order."""
    log = entries()
    client = await serve(ListSource(log))
    for seq in (len(log), 10, 13, 7, 3, len(log)):
        async with client.get("/api/v1/budgets", params={"at": str(seq)}) as response:
            found = await response.json()
        judged = _judged(log[:seq], log[seq - 1].at)
        assert {row["name"] for row in found["budgets"]} == set(judged), seq
        for row in found["budgets"]:
            assert row["usedUp"] == judged[row["name"]]["usedUp"]
            for limit, said in zip(row["limits"], judged[row["name"]]["limits"], strict=True):
                for key in ("limit", "used", "committed", "left"):
                    assert limit[key]["value"] == pytest.approx(float(said[key])), (seq, key)


async def test_who_consumes_and_since_when(serve: Serve) -> None:
    """Two queues' parts make the whole; who runs is named with what it costs an hour."""
    (row,) = (await _budgets(serve, entries()))["budgets"]
    assert (row["scope"], row["unit"], row["onExceeded"]) == ("cq:main", "Weekly", "Hold")
    cost = row["limits"][0]
    assert cost["used"]["text"] == "9.30 EUR"
    assert [one["localQueue"] for one in row["consumers"]] == ["second", "main"], "most first"
    parts = sum(one["used"][0]["value"] for one in row["consumers"])
    assert parts == pytest.approx(cost["used"]["value"], abs=1e-5)
    (running,) = row["running"]
    assert running["job"] == "default/c"
    assert running["perHour"][0]["text"] == "3.60 EUR"
    assert cost["perHour"]["text"] == "3.60 EUR"
    assert cost["reachedAt"].startswith("2026-01-02T02:06"), "90.70 EUR at 3.60 an hour"


async def test_it_is_told_over_time(serve: Serve) -> None:
    """What was used never becomes less, and ends with what is used now."""
    (row,) = (await _budgets(serve, entries()))["budgets"]
    used = [point["used"][0] for point in row["points"]]
    assert len(used) > 3
    assert used == sorted(used)
    assert used[-1] == row["limits"][0]["used"]["value"]
    (earlier,) = (await _budgets(serve, entries(), "10"))["budgets"]
    assert earlier["points"][-1]["used"][0] < used[-1]


async def test_without_budgets_nothing_is_folded(serve: Serve) -> None:
    client = await serve()
    async with client.get("/api/v1/budgets") as response:
        assert (await response.json())["budgets"] == []


def test_a_log_that_was_cut_says_so() -> None:
    """What was consumed before it begins is not in it, and nobody is to take the rest for all."""
    log = entries()

    class Cut(ListSource):
        first = 6

    books = Books(Cut(log[5:]))
    assert books.ask(len(log), lambda state, _: len(state.series)) >= 0
    assert books.cut_at == 6
    assert Books(ListSource(log)).cut_at == 0


def test_books_go_back_as_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """With states put down or without, forwards or backwards: the same consumption."""
    log = entries()
    monkeypatch.setattr("sluice.console.budgets.books.SPACING", 2)
    books = Books(ListSource(log))
    for seq in (*range(1, len(log) + 1), *range(len(log), 0, -3)):
        fresh = Books(ListSource(log))
        wanted = fresh.ask(seq, lambda state, _: consumption.dump(state))
        assert books.ask(seq, lambda state, _: consumption.dump(state)) == wanted, seq
