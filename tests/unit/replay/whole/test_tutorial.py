"""The tutorial: every command in docs/replay.md runs, and answers with the lines that are shown."""

import re
import shlex
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.replay.source import json_lines
from tests.unit.replay.extract.test_extract import incident
from tests.unit.replay.incident import ROOT
from tests.unit.replay.lint.test_invariants import altered

BLOCK = re.compile(r"```console\n\$ sluice (.*?)\n(.*?)```", re.DOTALL)
BLOCKS = BLOCK.findall((ROOT / "docs/replay.md").read_text()) + [
    (command, shown)
    for command, shown in BLOCK.findall((ROOT / "README.md").read_text())
    if "-l examples/logs" in command
]


def run(arguments: list[str], capsys) -> tuple[int, str, str]:
    code = 0
    try:
        main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command[:40] for command, _ in BLOCKS])
def test_the_tutorial_says_what_happens(command, shown, capsys, monkeypatch):
    """Nothing is written, and each line shown is in the answer; `...` is for those that are not."""
    monkeypatch.chdir(ROOT)
    before = sorted((ROOT / "examples/logs").iterdir())
    code, out, err = run(shlex.split(command), capsys)

    assert code == 0, err
    for line in shown.splitlines():
        assert line.strip() == "..." or line.strip() in out
    assert sorted((ROOT / "examples/logs").iterdir()) == before


LOG = ["-l", "examples/logs/incident.slog"]


def test_the_picture_in_the_docs_is_of_today(capsys, monkeypatch, tmp_path):
    """Drawn again it is the same, byte by byte."""
    monkeypatch.chdir(ROOT)
    code, _, err = run(["replay", "timeline", "company", *LOG, "--svg", str(tmp_path / "i.svg")], capsys)

    assert code == 0, err
    assert (tmp_path / "i.svg").read_bytes() == (ROOT / "docs/images/incident.svg").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["why", "trian-4", "--at", "34", *LOG], 1, 'Did you mean "train-4"?'),
        (["why", "train-4", "--at", "34000", *LOG], 2, "there is no sequence 34000"),
        (["why", "train-4", "--at", "yesterday", *LOG], 2, "want a sequence"),
        (["replay", "state", "--at", "2020-01-01", *LOG], 2, ", after 2020-01-01"),
        (["replay", "state", "-l", "no.slog"], 1, "No such file"),
        (["replay", "bisect", "--invariant", "quotas", *LOG], 2, 'Did you mean "quota"?'),
        (["replay", "what-if", "--set", "ClusterQueue/reserch.spec.cohortName=x", *LOG], 2, "research"),
        (["replay", "verify", "--service", "sched", *LOG], 2, "scheduler"),
        (["log", "extract", "/dev/null/x", "--workload", "train-44", *LOG], 1, "Did you mean"),
        (["log", "export", "/nowhere/x.slog", *LOG], 1, "No such file"),
        (["replay", "verify", "-l", "README.md"], 1, "not an exported Sluice log"),
    ],
)
def test_bad_input_is_a_clear_error(arguments, code, said, capsys, monkeypatch):
    """One line that says what is wrong, an exit code, no trace."""
    monkeypatch.chdir(ROOT)
    found, out, err = run(arguments, capsys)

    assert found == code, err
    assert said in err
    assert "Traceback" not in err
    assert not out


def test_verify_fails_with_a_code_of_its_own(capsys, monkeypatch):
    """A log that does not decide itself again ends with exit code 1; so CI notices."""
    monkeypatch.chdir(ROOT)
    log = "tests/unit/replay/golden/must-fail-victim-order.jsonl"
    code, out, _ = run(["replay", "verify", "-l", log], capsys)

    assert code == 1
    assert "commit 27" in out


def test_extracts_and_exports_are_logs(tmp_path: Path, capsys, monkeypatch):
    """An extract verifies for the scheduler; a redacted one holds no command."""
    monkeypatch.chdir(ROOT)
    target = tmp_path / "x.slog"
    assert run(["log", "extract", str(target), "--workload", "train-4", *LOG], capsys)[0] == 0
    assert run(["replay", "verify", "--service", "scheduler", "-l", str(target)], capsys)[0] == 0
    lines = tmp_path / "x.jsonl"
    assert run(["log", "export", str(lines), "--redact", *LOG], capsys)[0] == 0
    assert b'"sleep"' not in lines.read_bytes()


def test_an_extract_says_what_was_kept(tmp_path: Path, capsys, monkeypatch):
    """So many messages and jobs of how many; a folder that is not there is told before any work."""
    monkeypatch.chdir(ROOT)
    arguments = ["log", "extract", "--workload", "train-4", *LOG]
    code, _, err = run([*arguments, str(tmp_path / "x.slog")], capsys)
    assert code == 0
    assert re.fullmatch(r"kept 47 of 57 messages and 5 of 7 jobs, after \d+ tries\n", err)

    code, _, err = run([*arguments, str(tmp_path / "nowhere/x.slog")], capsys)
    assert code == 1
    assert "there is no folder" in err


def test_a_log_of_other_code_is_redacted_as_it_is(tmp_path: Path, capsys, monkeypatch):
    """What was written before the difference was found is not left in the file."""
    monkeypatch.chdir(ROOT)
    entries = altered(incident(), lambda e: () if type(e).__name__ == "Preempted" else (e,))
    source, target = tmp_path / "other.jsonl", tmp_path / "x.jsonl"
    with source.open("wb") as file:
        json_lines.write(entries, file)
    code, _, err = run(["log", "export", str(target), "--redact", "-l", str(source)], capsys)

    assert code == 0
    assert "decides otherwise" in err
    assert len(target.read_bytes().splitlines()) == len(entries)
    assert b'"sleep"' not in target.read_bytes()


def test_simulate_says_where_and_whom(tmp_path: Path, capsys, monkeypatch):
    """A job that fits is said to be admitted; one that cannot is said to wait, and why."""
    monkeypatch.chdir(ROOT)
    job = tmp_path / "job.yaml"
    text = (
        "apiVersion: sluice.dev/v1alpha1\nkind: Job\nmetadata: {name: new}\n"
        "spec: {queueName: serving, priorityClassName: production, command: ['true'],\n"
        "  resources: {cpu: CPUS}}\n"
    )
    job.write_text(text.replace("CPUS", "8"))
    code, out, err = run(["simulate", "-f", str(job), "--at", "20", *LOG], capsys)
    assert code == 0, err
    assert "would be admitted in serving" in out

    job.write_text(text.replace("CPUS", "99"))
    assert "would wait" in run(["simulate", "-f", str(job), "--at", "20", *LOG], capsys)[1]

    job.write_text(text.replace("CPUS", "1").replace("queueName: serving", "queueName: servnig"))
    out = run(["simulate", "-f", str(job), "--at", "20", *LOG], capsys)[1]
    assert 'LocalQueue servnig doesn\'t exist. Did you mean "serving"?' in out


@pytest.mark.parametrize("command", [["why", "--at", "34"], ["who-preempted"]], ids=["why", "who-preempted"])
def test_questions_about_one_job_know_namespaces(command, capsys, monkeypatch):
    """By -n or SLUICE_NAMESPACE, as every other command."""
    monkeypatch.chdir(ROOT)
    assert run([*command, "train-4", "-n", "default", *LOG], capsys)[0] == 0
    code, _, err = run([*command, "train-4", "-n", "elsewhere", *LOG], capsys)
    assert (code, "'elsewhere/train-4'" in err) == (1, True)
    monkeypatch.setenv("SLUICE_NAMESPACE", "elsewhere")
    assert "'elsewhere/train-4'" in run([*command, "train-4", *LOG], capsys)[2]
    assert run([*command, "default/train-4", *LOG], capsys)[0] == 0
