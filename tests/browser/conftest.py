"""A console that serves the example log, and the Chromium that Debian packages to look at it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .looking import Look

ROOT = Path(__file__).parents[2]
INCIDENT = ROOT / "examples/logs/incident.slog"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox", "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


class Console:
    """The console's process; its port stays when it is started again."""

    def __init__(self, log: Path, port: int = 0) -> None:
        command = [sys.executable, "-m", "sluice.services.console", "--log", str(log), "--port", str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.address = line.removeprefix("Console: ").strip().rstrip("/")
        self.port = int(self.address.rpartition(":")[2])

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def console(request) -> Iterator[Console]:
    request.getfixturevalue("chromium")  # where there is none, nothing has to be started
    pytest.importorskip("sluice.services.console", reason="there is no console here")
    running = Console(INCIDENT)
    yield running
    running.end()


@pytest.fixture(scope="module")
def chromium():
    """For one module at a time: while it runs an event loop does, which tests elsewhere could not have."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def look(chromium, console) -> Iterator[Look]:
    """A tab; at its end nothing may have been complained of."""
    with Look.at(chromium, console.address) as opened:
        yield opened
