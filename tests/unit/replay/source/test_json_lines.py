"""Logs as lines of JSON."""

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.log.contract import Entry
from sluice.replay.source import json_lines
from sluice.replay.source.source import FileSource, sequence_at

PAYLOADS = st.one_of(
    st.binary(max_size=40),
    st.recursive(st.none() | st.integers(-(2**53), 2**53) | st.text(max_size=5), st.lists).map(
        msgspec.json.encode
    ),
    st.sampled_from([b"", b" {}", b"{} ", b"1\n2", b'{"a":\n1}', b'"\xff"', b"{}x", '"\u2028é"'.encode()]),
)


@given(st.lists(PAYLOADS, max_size=8))
def test_what_is_written_is_read_back(payloads):
    """Byte for byte, whatever the messages hold; one line each."""
    entries = [Entry(3 * n + 1, f"job.a.b{n}", n, payload) for n, payload in enumerate(payloads)]
    file = io.BytesIO()

    assert json_lines.write(entries, file) == len(entries)

    assert file.getvalue().count(b"\n") == len(entries)
    file.seek(0)
    assert list(json_lines.read(file)) == entries


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"nonsense", "malformed"),
        (b'{"seq":2,"subject":"config"}', "at"),
        (b'{"seq":1,"subject":"config","at":1}', "sequence 1 after 1"),
        (b'{"seq":2,"subject":"config","at":1,"base64":"?"}', "base64"),
    ],
)
def test_what_is_no_message_is_named(line, told):
    """The error tells the line and what is wrong with it."""
    lines = [b'{"seq":1,"subject":"config","at":1,"data":{}}', line]

    with pytest.raises(json_lines.LineError, match="line 2: ") as raised:
        list(json_lines.read(lines))

    assert told in str(raised.value)
    assert raised.value.number == 2


def test_any_part_of_a_long_file_can_be_read(tmp_path):
    """From wherever it is read, what comes is what the whole has there; gaps in the sequence included."""
    path = tmp_path / "long.jsonl"
    entries = [Entry(seq, "job.default.a", seq * 10, b"%d" % seq) for seq in range(5, 9000, 3)]
    with path.open("wb") as file:
        json_lines.write(entries, file)
    source = FileSource(path)

    assert (source.first, source.end) == (5, entries[-1].seq)
    for start, until in ((1, 10_000), (4000, 4100), (3004, 3005), (8998, 9500), (6, 7)):
        found = [e for batch in source.read(start, until) for e in batch]
        assert found == [e for e in entries if start <= e.seq <= until]


def test_a_time_is_found_wherever_it_lies(tmp_path):
    """The last message up to a time; before the first there is none, behind the last it is the last."""
    path = tmp_path / "long.jsonl"
    entries = [Entry(seq, "job.default.a", seq // 7 * 100, b"{}") for seq in range(5, 4000, 3)]
    with path.open("wb") as file:
        json_lines.write(entries, file)
    source = FileSource(path)

    for at in (-1, 0, 99, 100, 20_000, 20_050, 57_000, 10**9):
        assert sequence_at(source, at) == max((e.seq for e in entries if e.at <= at), default=0), at
