"""When a server is started again because it could not write."""

from pathlib import Path

import pytest

from sluice.local.store_watch import AGAIN_S, FULL_BYTES, ROOM_BYTES, StoreWatch


class Machine:
    def __init__(self, directory: Path) -> None:
        self.free, self.now = ROOM_BYTES, 0.0
        self.log = directory / "server.log"
        self.log.write_text("critical write error of yesterday\n")
        self.watch = StoreWatch(directory, self.log, free=lambda _: self.free, clock=lambda: self.now)

    def says(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(text + "\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_to_do(machine: Machine) -> None:
    machine.says("all is well")
    assert not machine.watch.look()
    assert not machine.watch.stuck


@pytest.mark.parametrize(
    "says", ["Filestore [S] Critical write error: full", "write x: no space left on device", ""]
)
def test_full_disk_is_waited_for(machine: Machine, says: str) -> None:
    """By what the server says, or, if it cannot even say it, by the disk; and until there is room enough."""
    machine.free = FULL_BYTES - 1
    machine.says(says)
    assert not machine.watch.look()
    assert machine.watch.stuck
    machine.free = ROOM_BYTES - 1
    assert not machine.watch.look()
    machine.free = ROOM_BYTES
    assert machine.watch.look()
    machine.watch.begun()
    assert not machine.watch.look()
    assert not machine.watch.stuck


def test_not_again_and_again(machine: Machine) -> None:
    """A disk that refuses writes for another reason does not have the server started twice a second."""
    machine.watch.begun()
    machine.says("critical write error: input/output error")
    assert not machine.watch.look()
    machine.now += AGAIN_S
    assert machine.watch.look()


def test_log_that_was_begun_anew(machine: Machine) -> None:
    machine.log.write_text("critical write error\n"[:-1])
    assert machine.watch.look()
