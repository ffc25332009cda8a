"""Processes of this machine: how a service is started, and whether a process is there."""

import os
import sys


def service_command(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a service, `agent` or `check_budget`, as a process of its own.

    Services stand above everything that starts them, so they are named here and never imported. -P: what
    lies in the current directory is not taken for a module.
    """
    return [sys.executable, "-P", "-m", f"sluice.services.{name}", *arguments]


def exists(pid: int) -> bool:
    """Tell whether there is such a process; one that has ended and was not waited for still counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
