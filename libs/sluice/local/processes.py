"""Processes of this machine, by pid."""

import os


def exists(pid: int) -> bool:
    """Tell whether there is such a process; one that has ended and was not waited for still counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


__all__ = ["exists"]
