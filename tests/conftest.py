"""Fixtures and settings that every test may use."""

import importlib
import importlib.abc
import importlib.machinery
import sys

import pytest
from hypothesis import HealthCheck, settings

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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say in which order tests ran, also with `-q`: who wants that order again gives the number."""
    seed = config.getoption("randomly_seed", None)
    if seed is not None:
        terminalreporter.write_line(f"random order; for the same again: --randomly-seed={seed}")


class _FormerNames(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of `tests.support` by their former names; to be removed when no branch uses them."""

    renamed = {"controllers": "check_controllers", "held": "log_check", "shown": "shown_usage"}
    moved = {
        "tests": "checked_cell checks_world examples execution_world family_world nats node "
        "preemption_worlds system waiting controllers held shown",
        "tests.unit.core": "flavor_builders lifecycle_history scheduler_cell slices_world",
        "tests.property": "contended_history elastic_cell scheduler_history",
    }

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        del path, target
        package, _, name = fullname.rpartition(".")
        known = name in self.moved.get(package, "").split()
        return importlib.machinery.ModuleSpec(fullname, self) if known else None

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        name = spec.name.rpartition(".")[2]
        return importlib.import_module(f"tests.support.{self.renamed.get(name, name)}")

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        del module


sys.meta_path.append(_FormerNames())
