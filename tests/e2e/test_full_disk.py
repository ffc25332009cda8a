"""A full disk under a running cell: it stops, loses nothing, and goes on by itself when there is room."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

from .conftest import queue_yaml
from .test_up import command

pytestmark = [pytest.mark.nats, pytest.mark.long]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of some megabytes of its own."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield tmp_path
    command(tmp_path, "down")
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def fill(path: Path) -> None:
    """Take all the room that is left."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 65536)
        except OSError:
            pass
        try:
            while True:
                file.write(b"\0")
        except OSError:
            return


def submit(home: Path, name: str, *more: str) -> int:
    return command(
        home, "submit", "-q", "small", "--name", name, *more, "--timeout", "120s", "--", "true"
    ).returncode


def events(home: Path) -> int:
    return len(command(home, "log", "tail", "-n", "10000", "--no-follow").stdout.splitlines())


def test_goes_on_when_there_is_room(small: Path) -> None:
    """So does the server, which says no for ever once it was refused a write; and more than once."""
    said = command(small, "up", "--detach", "--agents", "1", "--timeout", "60")
    assert said.returncode == 0, said.stderr
    (small / "queue.yaml").write_text(queue_yaml("small"))
    assert command(small, "apply", "-f", "queue.yaml").returncode == 0
    assert submit(small, "first", "--wait") == 0
    before = events(small)
    for number in range(2):
        filler = small / "filler"
        fill(filler)
        # Some find room on pages that are begun; what is not acknowledged is said to be so.
        assert submit(small, f"full-{number}", "--count", "200") != 0
        full_s = time.monotonic()
        filler.unlink()
        wait_until(lambda number=number: submit(small, f"after-{number}", "--wait") == 0)
        took_s = time.monotonic() - full_s
        print(f"goes on after {took_s:.1f} s")
        assert took_s < 60
    assert events(small) > before
    said = command(small, "status")
    assert said.returncode == 0, said.stdout
    assert command(small, "replay", "verify").returncode == 0
