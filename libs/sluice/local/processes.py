"""Processes of this machine: how a service is started, and whether a process is there."""

import contextlib
import os
import socket
import sys

CONSOLE_PORT = 8400
"""Where a console is looked for first."""


def service_command(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a service, `agent` or `check_budget`, as a process of its own.

    Services stand above everything that starts them, so they are named here and never imported. -P: what
    lies in the current directory is not taken for a module.
    """
    return [sys.executable, "-P", "-m", f"sluice.services.{name}", *arguments]


def free_port(preferred: int) -> int:
    """Return a port of loopback that nobody listens on: *preferred*, or else any."""
    for port in (preferred, 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            # As servers do: what a connection that has ended still holds is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    return preferred


def exists(pid: int) -> bool:
    """Tell whether there is such a process; one that has ended and was not waited for still counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
