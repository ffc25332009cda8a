"""`sluice log` of a file: the same as of a running cell, and counted after it is filtered."""

import json

import pytest

from tests.support.command import Said, sluice
from tests.unit.console.conftest import EXAMPLE


def run(*words: str) -> Said:
    return sluice("log", *words, "-l", str(EXAMPLE))


@pytest.mark.parametrize("most", [1, 5, 30])
def test_tail_counts_what_it_shows(most: int) -> None:
    """However far back those are that a filter keeps."""
    everything = [
        json.loads(line) for line in run("tail", "-n", "100000", "-o", "json").ok().out.splitlines()
    ]
    of_config = [entry for entry in everything if entry["subject"] == "config"]
    shown = run("tail", "-w", "config", "-n", str(most), "-o", "json").ok().out.splitlines()
    assert [json.loads(line) for line in shown] == of_config[-most:]
    name = "ResourceFlavor"
    found = run("tail", "-n", str(most), "-o", "json", name).ok().out.splitlines()
    assert [json.loads(line) for line in found] == [e for e in everything if name in json.dumps(e)][-most:]


def test_a_message_of_a_file_is_shown_whole() -> None:
    (line,) = run("show", "1", "-o", "json").ok().out.splitlines()
    assert json.loads(line)["seq"] == 1
    said = run("show", "1000000")
    assert said.code == 1
    assert "the log ends at" in said.err


def test_what_was_rejected_in_a_file_is_listed() -> None:
    said = run("rejected").ok()
    assert said.out or "No message was rejected." in said.err
