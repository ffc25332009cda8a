"""Logs as lines of JSON."""

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.log.contract import Entry
from sluice.replay import jsonl

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

    assert jsonl.write(entries, file) == len(entries)

    assert file.getvalue().count(b"\n") == len(entries)
    file.seek(0)
    assert list(jsonl.read(file)) == entries


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

    with pytest.raises(jsonl.LineError, match="line 2: ") as raised:
        list(jsonl.read(lines))

    assert told in str(raised.value)
    assert raised.value.number == 2
