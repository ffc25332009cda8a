"""YAML of users is bounded before work is done for it: nothing crashes, and nothing takes long."""

import io
import re
import time
from pathlib import Path

import pytest

from sluice.api import yaml
from sluice.api.yaml import MAX_BYTES, MAX_NODES, YamlTextError, decode_yaml, plain_documents
from sluice.cli.kit import files
from tests.unit.replay.whole.test_tutorial import ROOT, run

N = 200_000
COHORT = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: all}\n"

BOMBS = {
    "brackets": "a: " + "[" * N + "]" * N,
    "never closed": "[" * N,
    "braces": "a: " + "{a: " * N,
    "json": '{"a":' * N,
    "dashes": "- " * N,
    "complex keys": "? " * N,
    "indentation": "\n".join(" " * i + "a:" for i in range(1000)),
    "values": "a: [" + "1," * N + "1]",
    "aliases": "a: &x [1]\nb: [" + "*x," * N + "]",
    "anchors": "&a " * N,
    "tags": "!!x " * N,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_with_its_line(text: str):
    """A parser that recursed would end the process, one that is asked for all takes quadratic time."""
    began = time.process_time()
    (found,) = decode_yaml(text)
    assert found.errors
    assert 1 <= found.line <= text.count("\n") + 1
    with pytest.raises(YamlTextError):
        list(plain_documents(text))
    assert time.process_time() - began < 30


def test_time_is_linear_in_the_depth():
    """Ten times the brackets are not looked at: the parser is left at the first that is too deep."""

    def seconds(depth: int) -> float:
        began = time.process_time()
        decode_yaml("[" * depth)
        return time.process_time() - began

    assert seconds(5_000_000) < 2.0


def test_what_stands_before_the_bomb_is_answered_for():
    found = decode_yaml(f"{COHORT}---\n{COHORT}---\na:\n  b: {'[' * N}")

    assert [bool(each.errors) for each in found] == [False, False, True]
    assert found[-1].problems("f.yaml") == [
        "f.yaml:10: document 3: manifest: Unreadable: nested deeper than 128 levels"
    ]


def test_what_fits_is_read():
    depth = 100
    assert list(plain_documents("[" * depth + "]" * depth))
    (found,) = plain_documents("[" + "1," * (MAX_NODES - 2) + "]")
    assert len(found) == MAX_NODES - 2
    assert list(plain_documents("on: off\n---\n---\n12:30")) == [{"on": "off"}, "12:30"]


@pytest.mark.parametrize(("text", "line"), [("a: 1\na: 2", 2), ("a: 1\nb: [", 3), ("a: *b", 1), (b"\xff", 1)])
def test_plain_documents_say_where(text, line):
    with pytest.raises(YamlTextError) as found:
        list(plain_documents(text))
    assert found.value.line == line


def test_a_text_that_is_too_large(monkeypatch: pytest.MonkeyPatch):
    """It is not even read whole: a device has no end."""
    assert len(files.read_limited(io.BytesIO(b"x" * 10))) == 10
    monkeypatch.setattr(yaml, "MAX_BYTES", 1024)
    (found,) = decode_yaml("#" * 1025)
    assert "larger than" in found.problems()[0]
    with Path("/dev/zero").open("rb") as endless:
        assert len(files.read_limited(endless)) == MAX_BYTES + 1


@pytest.mark.parametrize(
    "command",
    [
        ["apply", "--dry-run=client", "-f"],
        ["submit", "--dry-run", "-f"],
        ["simulate", "-l", "examples/logs/incident.slog", "-f"],
        ["replay", "what-if", "-l", "examples/logs/incident.slog", "--apply"],
    ],
    ids=lambda command: command[0],
)
def test_commands_name_file_and_line(command, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    path = tmp_path / "br.yaml"
    path.write_text(f"a: 1\nb: {'[' * N}{']' * N}")

    code, _, err = run([*command, str(path)], capsys)

    assert code in (1, 2)
    assert f"{path}:2" in err
    assert "nested deeper" in err


def test_yaml_is_read_in_one_place():
    """Another loader would be without the bounds."""
    loads = re.compile(r"yaml\.(safe_load|load|full_load|unsafe_load|compose|parse|scan)|tomllib")
    found = {
        str(path.relative_to(ROOT))
        for folder in ("libs", "services")
        for path in (ROOT / folder).rglob("*.py")
        if loads.search(path.read_text())
    }
    assert found == set()


def test_the_place_of_a_duplicate_is_bounded() -> None:
    """Thousands of keys twice under a long one: the first are named, with some of their place."""
    text = f"? {'a' * 100_000}\n: {{{', '.join(['k: 1'] * 20_000)}}}"
    (found,) = decode_yaml(text)
    twice = [error for error in found.errors if error.detail == "this key occurs twice"]
    assert len(twice) == yaml.LINES_FOUND
    assert max(len(error.field) for error in twice) == yaml.MAX_PATH
