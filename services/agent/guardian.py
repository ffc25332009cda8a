"""`python -m sluice.services.agent.guardian NAME WORK_DIR GRACE_S`: ends a dead agent's processes.

Started by the agent, with a pipe as standard input that ends when the agent does, however it does. Without
it, a job of an agent that was killed would go on while it is given to another agent.

An agent with a lease writes into the pipe, line by line, when that is over (`time.monotonic`). If nothing
later comes in time, its processes are ended, too: an agent that is stopped or hangs ends nothing.
"""

import fcntl
import os
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE_S = 1.0
"""Time for the agent's next life to begin; it ends what the earlier one left, and reports it."""

GRACE_MOST_S = 2.0
"""Most time between TERM and KILL: it must be over before the agent counts as lost."""

KILLING_S = 1.0
"""How long it takes, at most, until killed pods and what they have left are gone."""


def main(name: str, work_dir: Path, grace_s: float) -> None:
    """Wait for the agent's end, then end what it has left; whenever its lease is over, end what runs."""
    for over in leases(sys.stdin.fileno()):
        # Imported at the first lease, as it takes time that is not there when one is over.
        from .orphans import kill_all

        if over:
            kill_all(name, work_dir)
    time.sleep(PATIENCE_S)
    with (work_dir / "agent.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        # Imported only now: hardly any agent is ever killed, and all have a guardian.
        import asyncio

        from .orphans import end_orphans

        asyncio.run(end_orphans(name, work_dir, min(grace_s, GRACE_MOST_S)))


def leases(pipe: int) -> Iterator[bool]:
    """Yield False for leases that come through the pipe, True when one is over; end when the pipe does."""
    until: float | None = None
    rest = b""
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        if not select.select([pipe], [], [], left)[0]:
            until = None
            yield True
            continue
        found = os.read(pipe, 1 << 16)
        if not found:
            return
        *lines, rest = (rest + found).split(b"\n")
        if lines:
            until = float(lines[-1]) - KILLING_S
            yield False


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
