"""Reading what pods print while they print it."""

import os
from pathlib import Path

import pytest

from sluice.cli.commands.jobs.pod_logs import JobLogs, PodLog


def attempt(agents: Path, agent: str, number: int, uid: str = "u1", at: float = 1.0) -> Path:
    directory = agents / agent / "agent" / "default" / "train" / str(number)
    directory.mkdir(parents=True)
    (directory / "uid").write_text(uid)
    os.utime(directory / "uid", (at, at))
    return directory


def test_lines_come_whole(tmp_path):
    """What is read in the middle of a line, or of a letter, waits for the rest."""
    path = tmp_path / "main-0.log"
    log = PodLog("main-0", path)
    assert list(log.lines()) == []
    path.write_bytes("one\nzw\u00f6".encode()[:-1])
    assert list(log.lines()) == ["one"]
    with path.open("ab") as file:
        file.write("\u00f6".encode()[-1:] + b"lf\nlast")
    assert list(log.lines()) == ["zw\u00f6lf"]
    assert list(log.lines(final=True)) == ["last"]
    assert list(log.lines(final=True)) == []


@pytest.mark.parametrize("text", ["", "a\n", "a\nb\nc\n", "a\nb\nc", "\n\n"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
def test_tail_keeps_the_last_lines(tmp_path, text, count, monkeypatch):
    """As many as were asked for, with or without a line break at the end, however the file is read."""
    path = tmp_path / "log"
    path.write_text(text)
    for chunk in (1, 2, 1 << 20):
        monkeypatch.setattr("sluice.cli.commands.jobs.pod_logs.CHUNK", chunk)
        log = PodLog("main-0", path)
        log.skip_to_last(count)
        lines = text.splitlines()
        assert list(log.lines(final=True)) == lines[max(0, len(lines) - count) :]


def test_the_latest_attempt_of_the_latest_job_of_the_name(tmp_path):
    """A name may have been used before; an attempt may be spread over agents; a later one is noticed."""
    (attempt(tmp_path, "agent-1", 7, uid="old") / "main-0.log").write_text("old\n")
    (attempt(tmp_path, "agent-1", 1, uid="new", at=2.0) / "main-0.log").write_text("")
    second = attempt(tmp_path, "agent-2", 2, uid="new", at=3.0)
    (second / "main-0.log").write_text("")
    found = JobLogs(tmp_path, "default", "train")
    found.refresh()
    assert list(found.logs) == [second / "main-0.log"]

    (second / "main-1.log").write_text("")
    third = attempt(tmp_path, "agent-1", 3, uid="new", at=4.0)
    (third / "main-0.log").write_text("")
    found.refresh()
    assert third / "main-0.log" in found.logs
    named = JobLogs(tmp_path, "default", "train", uid="old")
    named.refresh()
    assert [log.path.parent.name for log in named.logs.values()] == ["7"]


def test_pods_are_named_when_there_are_several(tmp_path, capsys):
    """One pod's lines stand alone; of several each says whose it is; of several jobs, of which."""
    directory = attempt(tmp_path, "agent-1", 1)
    (directory / "main-0.log").write_text("zero\n")
    found = JobLogs(tmp_path, "default", "train")
    found.refresh()
    found.print_new()
    (directory / "main-1.log").write_text("one\n")
    found.refresh()
    found.print_new()
    labelled = JobLogs(tmp_path, "default", "train", label="train", pod="main-1")
    labelled.refresh()
    labelled.print_new()
    assert capsys.readouterr().out.splitlines() == ["zero", "main-1 one", "train/main-1 one"]
