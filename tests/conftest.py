"""Fixtures and settings that every test may use."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support import forked, system, unhandled
from tests.support.examples import FACTOR
from tests.support.nats import nats_server

# How fast examples are made says something of the machine, nothing of Sluice. The suite draws the same ones
# each time, so that it fails for a change only; `make fuzz` draws others, and more.
settings.register_profile(
    "sluice",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not FACTOR,
)
settings.load_profile("sluice")

__all__ = ["nats_server"]


@pytest.fixture(scope="session", autouse=True)
def _services_are_forks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system, "spawn", forked.spawn)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_console() -> Iterator[None]:
    """Cells of tests run no console, a process more for each of them; those that are about it ask for one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_UP_CONSOLE", "0")
        yield


@pytest.fixture(autouse=True)
def _nothing_unhandled() -> Iterator[None]:
    with unhandled.none_in_loop():
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long; apart from that the order is the random one of the commit."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say in which order tests ran, also with `-q`: who wants that order again gives the number."""
    seed = config.getoption("randomly_seed", None)
    if seed is not None:
        terminalreporter.write_line(f"random order; for the same again: --randomly-seed={seed}")
