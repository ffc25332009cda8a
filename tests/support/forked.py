"""Services as forks of a process that has all their modules: starting an interpreter for each takes a second.

`tests/conftest.py` makes whatever a `System` starts a fork. Interpreters of their own, as users start them,
have the services of `sluice up` (`tests/e2e/test_up.py`), of the demo, and of the wheel (`test_wheel.py`).
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from .system import ROOT, Process
from .system import spawn as start

_SERVICES = (
    "api",
    "slice_aggregator",
    "variant_controller",
    "scheduler",
    "admission_check",
    "agent",
    "check_budget",
    "check_provisioning",
    "check_webhook",
    "gate",
)
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "tests.support.forked",
        "tests.integration.log.bank",
        "sluice.sdk.checks",
        *(f"sluice.services.{name}.__main__" for name in _SERVICES),
    ]
)


class Forked:
    """What `tests.support.system` needs of a `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], log_path: Path) -> None:
        # Made here, since it is looked for as soon as the process is there.
        log_path.touch()
        self._process = _CONTEXT.Process(target=_run, args=(arguments, dict(env), log_path))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, which: int) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, which)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def spawn(command: Sequence[str], env: Mapping[str, str], log_path: Path) -> Process:
    """Fork instead of starting the interpreter, where *command* names a module: `-P -m <module>`."""
    if "-m" not in command:
        return start(command, env, log_path)
    return Forked(command[command.index("-m") + 1 :], env, log_path)


def _run(arguments: Sequence[str], env: Mapping[str, str], log_path: Path) -> None:
    with log_path.open("ab") as log:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = list(arguments)
    # Of modules that were loaded in vain: the service is to be its own `__main__`.
    warnings.simplefilter("ignore", RuntimeWarning)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
