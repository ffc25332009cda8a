"""Progress bars of commands that look into a log: on a terminal only, and full at the end."""

import io
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice.cli.cell import log_options
from sluice.cli.cell.log_options import bar, progress
from sluice.log.contract import Entry
from sluice.replay.source import log_file
from sluice.replay.source.source import FileSource, ListSource
from tests.unit.replay.extract.test_extract import incident


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def shown(self) -> list[int]:
        return [int(percent) for percent in re.findall(r"(\d+)%", self.getvalue())]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr(log_options, "sys", SimpleNamespace(stderr=found))
    return found


def test_a_bar_counts_to_what_is_read(terminal: Terminal) -> None:
    """With a sequence to read up to, half of that is half of the bar."""
    source = ListSource(incident())
    with progress(source, "Reading", 40) as show:
        show(20)
        assert terminal.shown()[-1] == 50
    assert terminal.shown()[-1] == 100


def test_a_file_is_counted_in_bytes(terminal: Terminal, tmp_path: Path) -> None:
    """A few messages of two megabytes are most of a log, though there are many others."""
    entries = [Entry(n, "job.default.a", n, b"x" * (2_000_000 if n > 95 else 10)) for n in range(1, 101)]
    with (tmp_path / "x.slog").open("wb") as file:
        log_file.write(file, log_file.Header(), [entries])
    source = FileSource(tmp_path / "x.slog")
    with progress(source, "Reading") as show:
        for seq in (95, 98, 100):
            show(seq)
    assert [percent for percent in terminal.shown() if percent] == [19, 60, 100]

    begin, weights = source.weight(0), [source.weight(seq) for seq in range(1, 101)]
    assert begin == 0
    assert weights == sorted(weights)
    assert weights[-1] > 10_000_000


def test_a_bar_is_full_when_the_work_ended_sooner(terminal: Terminal) -> None:
    with bar("Cutting", 1000) as show:
        show(10)
    assert terminal.shown()[-1] == 100


def test_a_bar_of_what_failed_is_not_full(terminal: Terminal) -> None:
    def read() -> None:
        with bar("Reading", 1000) as show:
            show(10)
            raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        read()
    assert terminal.shown()[-1] == 1


def test_a_second_pass_begins_anew(terminal: Terminal) -> None:
    source = ListSource(incident())
    with progress(source, "Looking", 40) as show:
        show(40)
        show(4)
        show(10)
        assert terminal.shown()[-1] == 25
    assert terminal.shown()[-1] == 100


def test_nothing_is_shown_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("Reading", 10) as show:
        show(5)
    assert capsys.readouterr() == ("", "")
