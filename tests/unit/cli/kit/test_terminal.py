"""What others have said is printed, and cannot steer the terminal."""

import json
import re
from pathlib import Path

import click
import pytest

from sluice.cli.kit import terminal
from sluice.cli.kit.durations import clock, moment, utc
from sluice.protocol.subjects import token
from tests.unit.replay.whole.test_tutorial import ROOT, run

HOSTILE = "tra\x1b]0;pwn\x07\x9b31m\u202e-4"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_echo_spells_out_what_steers(capsys: pytest.CaptureFixture[str]):
    terminal.echo(f"a{HOSTILE}\r\ud800 ok\tthere\nnext")

    out = capsys.readouterr().out
    assert not STEERING.search(out)
    assert out.endswith("\\ud800 ok\tthere\nnext\n")


def test_colours_are_ours_alone(capsys: pytest.CaptureFixture[str]):
    """Also within a text that is coloured."""
    with click.Context(click.Command("x"), color=True).scope():
        terminal.echo(f"{terminal.style('a\x1b[32mb', fg='red')} \x1b[32m")

    assert capsys.readouterr().out == "\x1b[31ma\\u001b[32mb\x1b[0m \\u001b[32m\n"
    assert terminal.plain(terminal.style("b", bold=True)) == "b"


def test_json_stays_json(capsys: pytest.CaptureFixture[str]):
    """What the terminal would obey is spelled as JSON does."""
    terminal.echo(json.dumps({"a": HOSTILE}, ensure_ascii=False))

    assert json.loads(capsys.readouterr().out) == {"a": HOSTILE}


def test_every_command_prints_through_it():
    """Or one of them forgets. Excepted is what a job itself has printed, which is passed on as it is."""
    past = re.compile(r"click\.(echo|secho|style|echo_via_pager)\b|\bprint\(")
    folder = ROOT / "libs/sluice/cli"
    found = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if any(past.search(line) for line in path.read_text().splitlines())
    }

    assert found - {"kit/terminal.py"} == {"commands/jobs/pod_logs.py", "commands/demo/view.py"}


def _hostile_log(path: Path) -> None:
    """Write the incident's log with a job whose name would steer, which is refused, too."""
    lines = []
    for text in (ROOT / "tests/unit/replay/golden/incident.jsonl").read_text().splitlines():
        line = json.loads(text.replace("train-4", json.dumps(HOSTILE)[1:-1]))
        line["subject"] = line["subject"].replace(HOSTILE, token(HOSTILE))
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    last = json.loads(lines[-1])
    stray = {"seq": last["seq"] + 1, "subject": f"job.{HOSTILE}", "at": last["at"], "data": {"a": HOSTILE}}
    lines.append(json.dumps(stray) + "\n")
    stray = {"seq": last["seq"] + 2, "subject": "slices", "at": last["at"], "data": {"type": HOSTILE}}
    lines.append(json.dumps(stray) + "\n")
    path.write_text("".join(lines))


@pytest.mark.parametrize(
    "command",
    [
        ["replay", "state"],
        ["replay", "state", "-o", "yaml"],
        ["replay", "verify"],
        ["replay", "what-if"],
        ["replay", "timeline", HOSTILE],
        ["replay", "timeline", HOSTILE[:-1]],
        ["replay", "bisect", "--invariant", "quota"],
        ["replay", "diff", "1", "40"],
        ["why", HOSTILE],
        ["why", HOSTILE[:-1]],
        ["who-preempted", HOSTILE],
        ["trace", "3"],
        ["trace", HOSTILE],
        ["log", "lint"],
    ],
    ids=lambda command: " ".join(map(ascii, command)),
)
def test_a_hostile_log_through_every_command(command, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Whatever stands in it, and whatever the command makes of it."""
    log = tmp_path / "hostile.jsonl"
    _hostile_log(log)

    _, out, err = run([*command, "-l", str(log)], capsys)

    assert "Traceback" not in err
    assert not STEERING.search(out + err), (out + err)[:2000]


@pytest.mark.parametrize("command", [["apply", "--dry-run=client"], ["submit", "--dry-run"]])
def test_a_hostile_manifest(command, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Refused before anything is asked of a cell."""
    path = tmp_path / "esc.yaml"
    path.write_text(
        'apiVersion: kueue.x-k8s.io/v1beta2\nkind: "Jo\\e]0;pwn\\ab"\nmetadata: {name: "\\e[31m"}\n'
    )

    code, out, err = run([*command, "-f", str(path)], capsys)

    assert code
    assert "pwn" in err
    assert not STEERING.search(out + err)


@pytest.mark.parametrize("at", [10**18, 2**63 - 1, -(2**63), -(10**18), 253_402_300_800_000_000])
def test_a_time_that_no_calendar_has_is_a_number(at):
    assert {clock(at), utc(at), moment(at, "%Y")} == {str(at)}


def test_times_are_told_to_the_millisecond():
    assert utc(1_767_225_600_123_999) == "2026-01-01 00:00:00.123"
