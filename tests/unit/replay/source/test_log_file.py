"""Exported logs: what was written is read, and nothing that is damaged is."""

import io

import pytest

from sluice.log.contract import Entry
from sluice.replay.source import log_file
from sluice.replay.source.log_file import LogFileError
from sluice.replay.source.source import FileSource
from tests.unit.replay.incident import EXAMPLE


def _entries(count: int = 500) -> list[Entry]:
    return [
        Entry(n, f"job.default.j{n % 7}", 1000 + n, bytes([n % 251]) * (n * 13 % 9000))
        for n in range(1, count)
    ]


def _written(entries: list[Entry]) -> bytes:
    out = io.BytesIO()
    log_file.write(out, log_file.Header(cell="c"), [entries])
    return out.getvalue()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.slog"


def test_reads_what_was_written(path):
    """Sequences, subjects, times and bytes are the same, over several blocks; ranges are cut exactly."""
    entries = _entries()
    path.write_bytes(_written(entries))
    source = FileSource(path)

    assert (source.first, source.end, source.header.cell) == (1, 499, "c")
    assert [e for batch in source.read() for e in batch] == entries
    assert [e.seq for batch in source.read(250, 260) for e in batch] == list(range(250, 261))


def test_no_prefix_is_taken_for_a_log(path):
    """A file that was cut anywhere is refused, and said to be truncated or no log."""
    data = _written(_entries(40))
    for cut in range(0, len(data), max(1, len(data) // 97)):
        path.write_bytes(data[:cut])
        with pytest.raises(LogFileError, match=r"truncated|not an exported|unreadable"):
            FileSource(path)


def test_no_changed_byte_goes_unnoticed(path):
    """Reading a file with any one byte changed raises, and never gives other entries."""
    entries = _entries(40)
    data = _written(entries)
    for position in range(0, len(data), max(1, len(data) // 211)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
        try:
            found = [e for batch in FileSource(path).read() for e in batch]
        except LogFileError:
            continue
        assert found == entries


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"PK\x03\x04 something else", "not an exported Sluice log"),
        (b"", "not an exported Sluice log"),
        (b"SLUICE-LOG 2\n", "upgrade"),
    ],
)
def test_foreign_and_future_files_are_named_as_such(path, data, word):
    """What is no log, or a later one, is refused in words."""
    path.write_bytes(data)
    with pytest.raises(LogFileError, match=word):
        FileSource(path)


def test_the_example_is_a_log():
    """The log that is shipped can be read."""
    assert FileSource(EXAMPLE).end > 40
