"""Bad input to every replay command: one clear error, an exit code, nothing written (through the command)."""

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.replay.whole.test_tutorial import ROOT, run

EXAMPLE = ROOT / "examples/logs/incident.slog"
GOLDEN = ROOT / "tests/unit/replay/golden/incident.jsonl"


def _lines() -> list[bytes]:
    return GOLDEN.read_bytes().splitlines(keepends=True)


def truncated() -> bytes:
    return EXAMPLE.read_bytes()[:-30]


def cut_in_the_middle() -> bytes:
    return EXAMPLE.read_bytes()[:900]


def header_only() -> bytes:
    return b"SLUICE-LOG 1\n"


def flipped() -> bytes:
    data = bytearray(EXAMPLE.read_bytes())
    data[len(data) // 2] ^= 0x40
    return bytes(data)


def future_format() -> bytes:
    return EXAMPLE.read_bytes().replace(b"SLUICE-LOG 1", b"SLUICE-LOG 9", 1)


def huge_block() -> bytes:
    data = bytearray(EXAMPLE.read_bytes())
    struct.pack_into(">I", data, len(b"SLUICE-LOG 1\n") + 1, 0x7FFFFFFF)
    return bytes(data)


def foreign() -> bytes:
    return b"PK\x03\x04 a zip file, or whatever"


def empty() -> bytes:
    return b""


FILES = [
    (truncated, "slog", "truncated"),
    (cut_in_the_middle, "slog", "truncated"),
    (header_only, "slog", "truncated"),
    (flipped, "slog", "damaged"),
    (future_format, "slog", "upgrade to read it"),
    (huge_block, "slog", "makes no sense"),
    (foreign, "slog", "not an exported Sluice log"),
    (empty, "slog", "not an exported Sluice log"),
    (empty, "jsonl", "the log is empty"),
    (foreign, "jsonl", "line 1"),
    (lambda: b"".join(_lines()[:5] + _lines()[3:5]), "jsonl", "after 5"),
    (lambda: b"".join(_lines()).replace(b'"seq":7,', b'"seq":"x",', 1), "jsonl", "line 7"),
]


def future_event() -> bytes:
    """An event that this code does not know, by a writer of a later version."""
    lines = _lines()
    line = next(n for n, text in enumerate(lines) if b'"QuotaReserved"' in text)
    changed = lines[line].replace(b'"QuotaReserved"', b'"QuotaTeleported"', 1)
    lines[line] = changed.replace(b'"version":1', b'"version":7', 1)
    return b"".join(lines)


def not_a_commit() -> bytes:
    """What somebody else has written to a service's subject, at the log's end."""
    lines = _lines()
    last = json.loads(lines[-1])
    stray = {"seq": last["seq"] + 1, "subject": "scheduler", "at": last["at"], "data": {"hello": "world"}}
    return b"".join([*lines, json.dumps(stray).encode(), b"\n"])


def _forged(suffix: str, **changes: object) -> bytes:
    """The incident's log, and at its end a commit on the subject of *suffix* by a stranger."""
    lines = _lines()
    last = json.loads(lines[-1])
    event = {"type": "Admitted", "workload": "default/nope"}
    data = {
        "writer": "scheduler",
        "version": 99,
        "steps": [{"upto": 1, "at": 1, "events": [event]}],
    } | changes
    message = {"specversion": "1.0", "id": "x", "source": "ci", "type": "sluice.commit", "data": data}
    stray = {"seq": last["seq"] + 1, "subject": suffix, "at": last["at"], "data": message}
    return b"".join([*lines, json.dumps(stray).encode(), b"\n"])


_GONE = {"type": "ObjectDeleted", "cause": 1, "kind": "ClusterQueue", "name": "research", "namespace": ""}

FORGED = {
    "of another service, newer": lambda: _forged("slices"),
    "of a newer version": lambda: _forged("scheduler"),
    "a deletion": lambda: _forged(
        "config", writer="config", version=1, steps=[{"upto": 1, "at": 1, "events": [_GONE]}]
    ),
    "of the future": lambda: _forged("checks", writer="checks", steps=[{"upto": 10**18, "at": 10**18}]),
    "no steps": lambda: _forged("variants", writer="variants", steps=None),
    "no commit": not_a_commit,
}


COMMANDS = [
    ["replay", "state"],
    ["replay", "verify"],
    ["replay", "what-if"],
    ["replay", "timeline", "train-4"],
    ["replay", "bisect", "--invariant", "quota"],
    ["replay", "diff", "1", "2"],
    ["why", "train-4"],
    ["who-preempted", "train-4"],
    ["trace", "3"],
    ["log", "lint"],
    ["log", "import"],
]


def _told(code: int, err: str) -> None:
    assert code in (1, 2), err
    assert err.startswith("error: "), err
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 3, err


@pytest.mark.parametrize(("made", "suffix", "said"), FILES)
def test_a_file_that_is_no_log(made: Callable[[], bytes], suffix, said, tmp_path: Path, capsys):
    """Each command says what is wrong with it, and where."""
    path = tmp_path / f"bad.{suffix}"
    path.write_bytes(made())
    for command in COMMANDS:
        where = [str(path)] if command == ["log", "import"] else ["-l", str(path)]
        code, out, err = run([*command, *where], capsys)
        _told(code, err)
        assert said in err, command
        assert not out
    code, out, err = run(["log", "export", str(tmp_path / "out.slog"), "-l", str(path)], capsys)
    _told(code, err)
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name], "nothing is written"


READERS = (["replay", "state"], ["replay", "verify"], ["replay", "what-if"], ["why", "train-4"])


def test_a_commit_that_cannot_be_read(tmp_path: Path, capsys):
    """It is named by its sequence; what does not need it still answers."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(future_event())
    for command in READERS:
        code, _, err = run([*command, "-l", str(path)], capsys)
        _told(code, err)
        assert "QuotaTeleported" in err, command
    code, out, _ = run(["log", "lint", "-l", str(path)], capsys)
    assert code == 1
    assert "QuotaTeleported" in out
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]


@pytest.mark.parametrize("made", FORGED.values(), ids=FORGED)
def test_what_a_stranger_wrote_to_a_service_s_subject(made, tmp_path: Path, capsys):
    """Nothing was decided by it, and everybody goes on. Lint names it, and nobody obeys it."""
    path = tmp_path / "good.jsonl"
    path.write_bytes(b"".join(_lines()))
    _, before, _ = run(["replay", "state", "-l", str(path), "-o", "json"], capsys)
    path.unlink()
    path = tmp_path / "bad.jsonl"
    path.write_bytes(made())
    _, after, _ = run(["replay", "state", "-l", str(path), "-o", "json"], capsys)
    assert json.loads(after)["clusterQueues"] == json.loads(before)["clusterQueues"]
    for command in READERS[:-1]:
        code, _, err = run([*command, "-l", str(path)], capsys)
        assert (code, "Traceback" in err) == (0, False), (command, err)
    code, out, _ = run(["log", "lint", "-l", str(path)], capsys)
    assert code == 1
    assert "whose subject this is" in out
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]


LOG = ["-l", "examples/logs/incident.slog"]
QUOTA = "ClusterQueue/research.spec.resourceGroups.0.flavors.on-demand.resources.cpu.nominalQuota"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay", "state", "--at", "0", *LOG], "there is no sequence 0"),
        (["replay", "state", "--at", "99999", *LOG], "has 1 to 57"),
        (["replay", "state", "--at", "-3", *LOG], "want a sequence"),
        (["replay", "state", "--at", "2019-05-05T10:00", *LOG], "begins at "),
        (["replay", "state", "reserch", *LOG], 'Did you mean "research"'),
        (["replay", "diff", "5", "9999", *LOG], "there is no sequence 9999"),
        (["replay", "timeline", "train-44", *LOG], "Did you mean"),
        (["replay", "bisect", "--invariant", "quotas", *LOG], 'Did you mean "quota"'),
        (["replay", "verify", "--service", "shceduler", *LOG], 'Did you mean "scheduler"'),
        (["trace", "999", *LOG], "there is no sequence 999"),
        (["trace", "0", *LOG], "0"),
        (["why", "trian-4", *LOG], "Did you mean"),
        (["why", "train-4", "--at", "2", *LOG], "over, or not there yet"),
        (["who-preempted", "nobody", *LOG], "there is no workload or job"),
        (["log", "extract", "x.slog", "--workload", "train-9", *LOG], "the log has no workload"),
        (["log", "export", "x.slog", "--from", "40", "--to", "20", *LOG], "nothing lies between"),
        (["replay", "what-if", "--set", "nonsense", *LOG], "want KIND/NAME.spec.field=VALUE"),
        (["replay", "what-if", "--set", f"{QUOTA}=lots", *LOG], "nominalQuota"),
        (["replay", "what-if", "--set", f"{QUOTA}=-4", *LOG], "nominalQuota"),
        (["replay", "what-if", "--set", "ClusterQueue/research.spec.cohort=x", *LOG], "cohort"),
        (["replay", "what-if", "--set", "ClusterQueue/none.spec.cohortName=x", *LOG], "no such object"),
        (["replay", "what-if", "--drop", "job/none", *LOG], "no such job"),
        (["replay", "what-if", "--drop", "everything", *LOG], "want job/NAME"),
        (["replay", "what-if", "--apply", "no.yaml", *LOG], "No such file"),
        (["replay", "what-if", "--apply", "README.md", *LOG], "README.md"),
        (["replay", "what-if", "--from", "9999", "--drop", "job/train-1", *LOG], "no sequence 9999"),
        (["replay", "what-if", "--jobs", "README.md"], "README.md"),
        (["replay", "what-if", "--no-control", *LOG], "want one, and --set"),
        (["replay", "what-if", "--no-control", "--drop", "job/x", "--jobs", "none.swf"], "want one, and"),
        (["replay", "what-if", "--jobs", "none.swf"], "No such file"),
        (["simulate", "-f", "none.yaml", *LOG], "No such file"),
        (["simulate", "-f", "README.md", *LOG], "README.md"),
        (["replay", "index", "examples/logs"], "directory"),
    ],
)
def test_questions_that_make_no_sense(arguments, said, capsys, monkeypatch):
    """Out of range, unknown, misspelt, or refused as `sluice apply` would refuse it."""
    monkeypatch.chdir(ROOT)
    before = sorted(ROOT.iterdir())
    code, out, err = run(arguments, capsys)

    assert code in (1, 2), (out, err)
    assert said in err
    assert "Traceback" not in err
    assert not out
    assert sorted(ROOT.iterdir()) == before


def test_a_trace_that_breaks_off(tmp_path: Path, capsys):
    path = tmp_path / "jobs.swf.gz"
    path.write_bytes(gzip.compress(b"; MaxProcs: 8\n1 0 -1 10 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1\n2 5")[:-6])
    code, _, err = run(["replay", "what-if", "--jobs", str(path)], capsys)
    _told(code, err)
    assert "jobs.swf.gz" in err
