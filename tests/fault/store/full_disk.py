"""A full disk under a cell of `sluice up`: it goes on when there is room again."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.e2e.conftest import queue_yaml
from tests.e2e.test_full_disk import fill, submit
from tests.e2e.test_up import command
from tests.support.waiting import wait_until

from .run import Report

NAME = "disk full (`sluice up`, one server)"
HEALED = "there is room again, and a job has run"


@contextlib.contextmanager
def small_disk() -> Iterator[Path | None]:
    """Yield a directory on a file system of 64 MB, None where none can be mounted."""
    path = Path(tempfile.mkdtemp(prefix="sluice-full-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        path.rmdir()
        yield None
        return
    try:
        yield path
    finally:
        command(path, "down")
        subprocess.run(["umount", "-l", str(path)], check=True)
        path.rmdir()


def full_disk(report: Report, tell: Callable[[str], None]) -> None:
    """Fill the disk of a cell for some seconds; its jobs and decisions count with the others."""
    with small_disk() as home:
        if home is None:
            tell("no file system can be mounted here: no full disk")
            return
        assert command(home, "up", "--detach", "--agents", "1", "--timeout", "60").returncode == 0
        (home / "queue.yaml").write_text(queue_yaml("small"))
        assert command(home, "apply", "-f", "queue.yaml").returncode == 0
        assert submit(home, "first", "--wait") == 0
        fill(home / "filler")
        refused = submit(home, "full", "--count", "200")
        (home / "filler").unlink()
        began = time.monotonic()
        wait_until(lambda: submit(home, "after", "--wait") == 0)
        report.times[NAME].append(time.monotonic() - began)
        report.healed[NAME] = HEALED
        report.jobs += 2
        if not refused:
            report.lost.append("full disk: 200 jobs were taken, though there was no room")
        verified = command(home, "replay", "verify")
        if verified.returncode:
            report.divergent.append(f"full disk: {verified.stdout}{verified.stderr}")
        tell(f"{report.times[NAME][-1]:18.1f} s  {NAME}")
