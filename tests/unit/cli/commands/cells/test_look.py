"""`sluice cells list` and `describe`, of an exported log of a manager."""

from pathlib import Path

import pytest

from sluice.replay.source import json_lines
from tests.support.cells_world import CellsWorld
from tests.support.command import sluice


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A manager with a job that runs in `near` and is to grow, one that waits, and a cell that is lost."""
    world = CellsWorld()
    world.ladder("near", "far", "lost", lostAfterSeconds=60).turn()
    world.workers["far"].room = 0
    world.cut(world.workers["lost"])
    key = world.create("train")
    world.reserve(key).exchange()
    world.scale(key, 3)
    growth = world.growth_of(key)
    assert growth is not None
    world.reserve(growth).exchange()
    world.reserve(world.create("later")).exchange()
    world.drain("far").exchange()
    path = tmp_path / "manager.jsonl"
    with path.open("wb") as file:
        json_lines.write(world.log, file)
    return str(path)


def test_cells_are_listed_with_what_they_have(log: str) -> None:
    """In reach or not, drained or not; growth is no job of its own."""
    lines = sluice("cells", "list", "-l", log).ok().lines
    assert lines[0].split() == ["NAME", "STATE", "SINCE", "DRAINED", "RUNNING", "HELD", "WAITING", "LEAVING"]
    found = {line.split()[0]: line.split() for line in lines[1:]}
    assert (found["near"][1], found["near"][-4:]) == ("Ready", ["1", "0", "1", "0"])
    assert (found["far"][1], found["far"][3]) == ("Ready", "stay")
    assert found["lost"][1] == "OutOfReach"
    wide = sluice("cells", "list", "-o", "wide", "-l", log).ok().out
    assert "no answer" in wide
    assert "cells" in wide


def test_formats_for_programs_say_the_same(log: str) -> None:
    rows = {row["name"]: row for row in sluice("cells", "list", "-o", "json", "-l", log).ok().json}
    assert rows["near"]["counts"] == {"running": 1, "held": 0, "waiting": 1, "leaving": 0}
    assert rows["far"]["drained"] == "stay"
    assert "drained: stay" in sluice("cells", "list", "-o", "yaml", "-l", log).ok().out


def test_one_cell_is_described_with_its_jobs(log: str) -> None:
    """Each with its state, since when, and what the cell says."""
    text = sluice("cells", "describe", "near", "-l", log).ok().out
    assert "ns/train   Running" in text
    assert "ns/train   Waiting (growth)" in text
    assert "insufficient unused quota" in text
    whole = sluice("cells", "describe", "near", "-o", "json", "-l", log).ok().json
    assert {job["job"] for job in whole["jobs"]} == {"ns/train", "ns/later"}
    assert "its jobs stay, since" in sluice("cells", "describe", "far", "-l", log).ok().out


def test_the_past_can_be_asked(log: str) -> None:
    """At the beginning no cell had been reached."""
    rows = sluice("cells", "list", "-o", "json", "--at", "3", "-l", log).ok().json
    assert {row["state"] for row in rows} == {"Unknown"}


def test_a_misspelt_cell_is_told_of(log: str) -> None:
    said = sluice("cells", "describe", "neer", "-l", log)
    assert said.code != 0
    assert "near" in said.err


def test_a_cell_that_places_nothing_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    world = CellsWorld()
    world.configure("ResourceFlavor", "f", {})
    with path.open("wb") as file:
        json_lines.write(world.log, file)
    assert "places no jobs elsewhere" in sluice("cells", "list", "-l", str(path)).ok().err
