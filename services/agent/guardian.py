"""`python -m sluice.services.agent.guardian NAME WORK_DIR GRACE_S`: ends a dead agent's processes.

Started by the agent, with a pipe as standard input that ends when the agent does, however it does. Without
it, a job of an agent that was killed would go on while it is given to another agent.
"""

import fcntl
import sys
import time
from pathlib import Path

PATIENCE_S = 1.0
"""Time for the agent's next life to begin; it ends what the earlier one left, and reports it."""

GRACE_MOST_S = 2.0
"""Most time between TERM and KILL: it must be over before the agent counts as lost."""


def main(name: str, work_dir: Path, grace_s: float) -> None:
    """Wait for the agent's end, then end what it has left."""
    sys.stdin.buffer.read()
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


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
