"""A running cell as a source: read only; a log imported into a fresh cell is the same log."""

from collections.abc import Iterator
from typing import Any

import pytest

from sluice.cli.cell.live_source import live_source
from sluice.cli.kit.settings import Settings
from sluice.cli.main import main
from sluice.log.cell import CellFold
from sluice.log.contract import Entry
from sluice.replay.source import json_lines
from sluice.replay.source.live import LiveSource
from sluice.replay.source.source import FileSource
from sluice.replay.source.time_travel import deciders, scheduler_at
from sluice.replay.verify.whole_log import check
from sluice.replay.views.overview import both, compared, look, look_at
from tests.support.system import System
from tests.support.waiting import wait_until
from tests.unit.replay.incident import EXAMPLE


def run(server, *arguments: str) -> int:
    try:
        main(["--server", server.url, *arguments])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spare}
"""


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
        json_lines.write(lines, file)
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


def test_a_state_is_read_from_the_snapshot_of_a_running_cell(tmp_path):
    """What the api service kept is where looking starts: of the log only what came since is read."""
    with System(tmp_path) as system:
        assert run(system, "log", "import", str(EXAMPLE)) == 0
        service = system.start("api", {"API_SNAPSHOT_ENTRIES": "20"})
        settings = Settings(server=system.url)
        kept = wait_until(lambda: (source := live_source(settings)).snapshot(CellFold(), source.end))
        service.kill()
        system.start("api", {"API_SNAPSHOT_ENTRIES": "0"})
        manifest = tmp_path / "flavor.yaml"
        manifest.write_text(FLAVOR)
        wait_until(lambda: run(system, "apply", "-f", str(manifest)) == 0)
        source = live_source(settings)
        assert source.end > kept.upto

        seen: list[int] = []
        reading: Any = source.read

        def read(*arguments: Any, **_: Any) -> Iterator[list[Entry]]:
            for entries in reading(*arguments):
                seen.extend(entry.seq for entry in entries)
                yield entries

        source.read = read
        for ask in (
            lambda snapshots: look_at(source, source.end, "train-4", snapshots=snapshots),
            lambda snapshots: look(source, source.end, ["jobs", "workloads"], snapshots=snapshots),
        ):
            seen.clear()
            found = ask(True)
            assert all(seq > kept.upto for seq in seen)
            assert found == ask(False)
            assert 1 in seen
        seen.clear()
        compared(*both(source, source.end - 1, source.end))
        assert all(seq > kept.upto for seq in seen)


def test_exports_of_a_cell_are_what_was_imported(imported, tmp_path):
    """There and back again."""
    path = tmp_path / "again.slog"
    assert run(imported, "log", "export", str(path)) == 0
    again, file = FileSource(path), FileSource(EXAMPLE)
    assert [e for b in again.read() for e in b] == [e for b in file.read() for e in b]
