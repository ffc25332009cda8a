"""Budgets: what is left, who consumes it; now and in the past, in both themes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.replay.source.log_file import Header, Writer
from tests.unit.console.budget_log import entries

from .conftest import Console
from .looking import Look


@pytest.fixture(scope="module")
def spending(tmp_path_factory, request) -> Iterator[Console]:
    request.getfixturevalue("chromium")
    path: Path = tmp_path_factory.mktemp("budget") / "budget.slog"
    with path.open("wb") as file:
        writer = Writer(file, Header(source="test"))
        writer.add(tuple(entries()))
        writer.finish()
    running = Console(path)
    yield running
    running.end()


def test_what_is_left_and_who_consumes_it(chromium, spending):
    with Look.at(chromium, spending.address) as look:
        look.go("/budgets")
        assert look.page.get_by_text("9.30 of 100.00 EUR used, 90.70 left").is_visible()
        first = look.page.get_by_role("region", name="Consumers of research").locator("tbody tr").first
        assert "default/second" in first.inner_text()
        assert "7.20" in first.inner_text()
        assert "c" in look.page.get_by_role("region", name="Running on research").inner_text()
        for theme in ("light", "dark"):
            look.page.emulate_media(color_scheme=theme)
            assert look.violations() == [], theme
        look.page.set_viewport_size({"width": 320, "height": 640})
        assert look.overflow() <= 0


def test_it_had_more_left(chromium, spending):
    """In the past it stands as it stood."""
    with Look.at(chromium, spending.address) as look:
        look.go("/budgets?at=11")
        assert look.page.get_by_text("1.20 of 100.00 EUR used, 98.80 left").is_visible()


def test_agents_are_named(chromium, spending):
    """What is told of an agent stands beside its name."""
    with Look.at(chromium, spending.address) as look:
        look.go("/system")
        row = look.page.get_by_role("region", name="Agents").locator("tbody tr")
        assert row.locator("td").first.inner_text() == "one"
        assert "Ready" in row.inner_text()
