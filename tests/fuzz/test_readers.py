"""Whatever comes from outside, every reader returns, or refuses as its callers expect, in bounded time.

`make test` plays a corpus and some examples; `make fuzz-readers` others each time, and FUZZ times as many.
"""

import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.readmodel import selector
from sluice.readmodel.selector import SelectorError, parse_labels
from tests.support.examples import examples
from tests.support.readers import READERS, SHAPES, read

SMALL, LARGE = 2_000, 32_000
MOST_S = 2.0
"""For 32 kB: sixty microseconds a byte, of which the slowest takes a tenth on a machine that is not busy."""

WORDS = (
    "specversion", "1.0", "id", "source", "type", "data", "subject", "JobSubmitted", "JobFinished",
    "CheckVerdict", "Seen", "Lost", "sluice.commit", "writer", "version", "steps", "upto", "at",
    "events", "scheduler", "slices", "apiVersion", "kind", "metadata", "spec", "template",
    "containers", "resources", "requests", "cpu", "name", "batch/v1", "Job", "sluice.dev/v1alpha1",
    "podSets", "attempt", "executor", "workload", "check", "state", "job", "Ready", "Retry",
    "Running", "uid", "instance", "seq", "error", "err_code", "description", "holder", "labels",
    "kueue.x-k8s.io/queue-name", "count", "parallelism", "completions", "cause",
    "requeueAfterSeconds",
)  # fmt: skip
TEXTS = st.sampled_from(WORDS) | st.text(max_size=12)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=24,
)
CORPUS = [shape(size) for shape in SHAPES.values() for size in (60, SMALL)] + [
    b"", b"null", b"{}", b"[]", b"\xef\xbb\xbf{}", b'"\\ud800"', b"1e999", b"-0", b"NaN", b'{"a":1}{"b":2}',
    b'{"id":"\\u0000"}', b"job.default.%00", b"presence.agent.%FF", b"1" * 5_000, b"-9223372036854775809",
]  # fmt: skip


def damaged(data: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    """Return the bytes with some of them replaced by others."""
    for at, count, instead in cuts:
        place = at % (len(data) + 1)
        data = data[:place] + instead + data[place + count :]
    return data


CUTS = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 40), st.binary(max_size=6)), max_size=4)
BYTES = (
    st.binary(max_size=200)
    | PLAIN.map(lambda value: msgspec.json.encode(value))
    | PLAIN.map(lambda value: msgspec.msgpack.encode(str(value)))
    | st.builds(damaged, st.sampled_from(CORPUS), CUTS)
)


@pytest.mark.parametrize("name", READERS)
def test_the_corpus(name: str) -> None:
    """Hard bytes of all shapes: no exception that nobody expects, and none that takes long."""
    for data in CORPUS:
        read(READERS[name], data)


@pytest.mark.parametrize("name", READERS)
def test_time_grows_with_the_bytes(name: str) -> None:
    """No shape of 32 kB takes seconds: what is quadratic would."""
    for shape, of_size in SHAPES.items():
        data = of_size(LARGE)
        began = time.process_time()
        read(READERS[name], data)
        assert time.process_time() - began < MOST_S, shape


@pytest.mark.parametrize("name", READERS)
@given(data=BYTES)
@settings(max_examples=examples(15))
def test_any_bytes(name: str, data: bytes) -> None:
    read(READERS[name], data)


def test_parts_of_a_selector() -> None:
    """Commas in parentheses part nothing; a selector of megabytes is refused before it is read."""
    assert selector._split("a in (x,y),b,c notin (z)") == ["a in (x,y)", "b", "c notin (z)"]
    assert selector._split("a,(b,(c,d),e") == ["a", "(b", "(c,d)", "e"]
    assert selector._split(",a,") == ["", "a", ""]
    assert len(parse_labels("a in (x,y),!b")) == 2
    for labels, fields in (("a," * 500_000, ""), ("", "a=b," * 500_000)):
        with pytest.raises(SelectorError, match="at most"):
            selector.Selector(labels, fields)


def test_a_megabyte_of_misspelt_fields() -> None:
    """What was meant is said of as many as anybody reads; looking for it took seven seconds of the cell."""
    data = SHAPES["fields misspelt"](1_000_000)
    began = time.process_time()
    read(READERS["submission"], data)
    read(
        READERS["job"], b'{"specversion":"1.0","id":"1","source":"s","type":"JobSubmitted","data":%s}' % data
    )
    assert time.process_time() - began < 4
