"""A running cell as a source: read only; a log imported into a fresh cell is the same log."""

import pytest

from sluice.cli.main import main
from sluice.replay import jsonl
from sluice.replay.checking import check
from sluice.replay.live import LiveSource
from sluice.replay.source import FileSource
from sluice.replay.states import deciders, scheduler_at
from tests.unit.replay.incident import EXAMPLE


def run(server, *arguments: str) -> int:
    try:
        main(["--server", server.url, *arguments])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@pytest.fixture
def imported(nats_server):
    assert run(nats_server, "log", "import", str(EXAMPLE)) == 0
    return nats_server


def test_an_imported_log_is_the_same_log(imported):
    """Sequences, times and bytes are the same, so everything decides itself again."""
    live, file = LiveSource(imported.url, "main"), FileSource(EXAMPLE)

    found = [e._replace(header=b"") for batch in live.read() for e in batch]
    assert found == [e for batch in file.read() for e in batch]
    assert all(check(live, decider).divergence is None for decider in deciders())
    fold, other = scheduler_at(live, 34), scheduler_at(file, 34)
    assert fold.decider.dump(fold.state) == other.decider.dump(other.state)


def test_a_cell_that_has_a_log_is_not_imported_into(imported, capsys):
    """Nothing is written over or behind what is there."""
    end = LiveSource(imported.url, "main").end

    assert run(imported, "log", "import", str(EXAMPLE)) == 1
    assert "is not empty" in capsys.readouterr().err
    assert LiveSource(imported.url, "main").end == end


def test_a_damaged_file_writes_nothing(nats_server, tmp_path, capsys):
    """Not even the cell's stream comes into being."""
    path = tmp_path / "cut.slog"
    path.write_bytes(EXAMPLE.read_bytes()[:-20])

    assert run(nats_server, "log", "import", str(path)) == 1
    assert "truncated" in capsys.readouterr().err
    assert run(nats_server, "replay", "state") != 0


def test_extracts_keep_their_sequences(nats_server, tmp_path):
    """Where an extract has gaps, the cell's log has something that no reader sees."""
    path = tmp_path / "part.jsonl"
    lines = [line for batch in FileSource(EXAMPLE).read() for line in batch if line.seq % 5 or line.seq > 40]
    with path.open("wb") as file:
        jsonl.write(lines, file)
    assert run(nats_server, "log", "import", str(path)) == 0
    found = [e._replace(header=b"") for batch in LiveSource(nats_server.url, "main").read() for e in batch]
    assert found == lines


@pytest.mark.parametrize(
    "arguments",
    [
        ("why", "train-4", "--at", "34"),
        ("who-preempted", "train-4"),
        ("trace", "26"),
        ("replay", "state"),
        ("replay", "diff", "20", "40"),
        ("replay", "verify"),
        ("replay", "what-if"),
        ("replay", "timeline", "research"),
        ("log", "lint"),
    ],
)
def test_asking_a_cell_has_no_effect_on_it(imported, arguments, capsys):
    """The log is as long as before."""
    end = LiveSource(imported.url, "main").end
    assert run(imported, *arguments) == 0, capsys.readouterr().err
    assert capsys.readouterr().out
    assert LiveSource(imported.url, "main").end == end


def test_exports_of_a_cell_are_what_was_imported(imported, tmp_path):
    """There and back again."""
    path = tmp_path / "again.slog"
    assert run(imported, "log", "export", str(path)) == 0
    again, file = FileSource(path), FileSource(EXAMPLE)
    assert [e for b in again.read() for e in b] == [e for b in file.read() for e in b]
