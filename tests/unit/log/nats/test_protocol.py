"""The protocol's bytes, and names in subjects."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.log.memory import MemoryLog
from sluice.log.nats.consumer import Deliveries, asked_for
from sluice.log.nats.protocol import (
    Frame,
    Parser,
    ProtocolError,
    addresses,
    description_of,
    headers_of,
    parse_info,
    publish_frame,
    status_of,
)
from sluice.protocol.subjects import Cell, job_suffix, matches, names, presence_suffix, token, untoken

HEADER = b"NATS/1.0\r\nA: 1\r\nB: two \r\n\r\n"
STREAM = (
    b'INFO {"max_payload":100}\r\n'
    b"MSG a.b 1 5\r\nhello\r\n"
    b"PING\r\n"
    b"MSG a.b 2 reply.to 4\r\n\r\n\r\n\r\n"
    + b"HMSG c 2 %d %d\r\n%sMSG x\r\n" % (len(HEADER), len(HEADER) + 5, HEADER)
    + b"HMSG c 2 $JS.ACK.r %d %d\r\n%s\r\n" % (len(HEADER), len(HEADER), HEADER)
    + b"-ERR 'Slow'\r\nMSG a 1 0\r\n\r\n"
)
FRAMES = [
    Frame(b"a.b", b"1", b"", b"", b"hello"),
    Frame(b"a.b", b"2", b"reply.to", b"", b"\r\n\r\n"),
    Frame(b"c", b"2", b"", HEADER, b"MSG x"),
    Frame(b"c", b"2", b"$JS.ACK.r", HEADER, b""),
    Frame(b"a", b"1", b"", b"", b""),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_frames_do_not_depend_on_how_the_bytes_arrive(cuts):
    """However a stream is cut into pieces, the same frames and lines come out."""
    parser, frames = Parser(), []
    borders = sorted({0, *cuts, len(STREAM)})
    for begin, end in itertools.pairwise(borders):
        frames += parser.feed(STREAM[begin:end])

    assert frames == FRAMES
    assert parser.control == [b'INFO {"max_payload":100}', b"PING", b"-ERR 'Slow'"]


def test_headers_and_statuses():
    assert headers_of(HEADER) == {"A": "1", "B": "two"}
    assert status_of(HEADER) == 0
    assert status_of(b"NATS/1.0 503\r\n\r\n") == 503
    status = b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\nX: 1\r\n\r\n"
    assert (status_of(status), description_of(status)) == (409, "Message Size Exceeds MaxBytes")


def test_published_frames_parse_back():
    """A header field and a reply come out as they went in."""
    sent = publish_frame("a.b", b"body", "r", {"H": "v"}).replace(b"HPUB a.b", b"HMSG a.b 7")
    (frame,) = Parser().feed(sent)

    assert (frame.subject, frame.reply, frame.payload) == (b"a.b", b"r", b"body")
    assert headers_of(frame.header) == {"H": "v"}


def test_what_is_not_nats_is_refused():
    with pytest.raises(ProtocolError):
        parse_info(b"HTTP/1.1 400 Bad Request")
    with pytest.raises(ProtocolError):
        Parser().feed(b"x" * (2 << 20))


def delivery(number, seq, ack="$JS.ACK.S.c.1.{seq}.{number}.1767225600000001999.5", sid=b"2"):
    return Frame(b"sluice.main.job.a.b", sid, ack.format(seq=seq, number=number).encode(), b"", b"p")


def test_deliveries_are_checked_one_by_one():
    """Entries come out up to the first that does not follow; after a new consumer reading goes on."""
    deliveries = Deliveries("sluice.main.", 10)
    status = Frame(b"_INBOX.x", b"2", b"", b"NATS/1.0 408 Timeout\r\n\r\n", b"")
    frames = [delivery(1, 12), status, delivery(9, 13, sid=b"1"), delivery(2, 15), delivery(4, 20)]

    entries = deliveries.take(frames, b"2")

    assert [(e.seq, e.suffix, e.at) for e in entries] == [
        (12, "job.a.b", 1767225600000001),
        (15, "job.a.b", 1767225600000001),
    ]
    assert deliveries.gap == (3, 4)
    assert deliveries.position == 15
    assert deliveries.statuses == [status]
    deliveries.restart(3)
    assert [e.seq for e in deliveries.take([delivery(1, 17)], b"2")] == [17]


def test_what_was_not_asked_for_is_left_out():
    """A reader of jobs and more reads everything, and hands out what it was made for."""
    subjects, wanted = asked_for(["job.>", "slices", "presence.agent.*"])
    deliveries = Deliveries("sluice.main.", 0, wanted)
    suffixes = ["job.a.b", "slices", "slices.x", "presence.agent.x", "presence.check.x", "checks", "jobs"]
    frames = [
        delivery(n, n)._replace(subject=f"sluice.main.{suffix}".encode())
        for n, suffix in enumerate(suffixes, 1)
    ]

    assert subjects == [">"]
    assert [e.suffix for e in deliveries.take(frames, b"2")] == ["job.a.b", "slices", "presence.agent.x"]
    assert (deliveries.taken, deliveries.position) == (7, 7)


@pytest.mark.parametrize("filters", [["job.>"], ["config", "slices"], ["verdict.>", "checks"]])
def test_the_server_filters_where_that_is_cheap(filters):
    assert asked_for(filters) == (filters, None)


def test_deliveries_never_go_back():
    deliveries = Deliveries("sluice.main.", 10)

    assert deliveries.take([delivery(1, 10)], b"2") == []
    assert deliveries.gap == (1, 1)


def test_newer_servers_name_domain_and_account():
    ack = "$JS.ACK.hub.acc.S.c.1.{seq}.{number}.1767225600000001999.0.token"
    (entry,) = Deliveries("sluice.main.", 0).take([delivery(1, 12, ack)], b"2")

    assert (entry.seq, entry.at) == (12, 1767225600000001)


@given(st.text(min_size=1).filter(lambda text: text.isprintable() or " " in text))
def test_any_name_is_one_plain_token(name):
    """No name can add a token, a wildcard or a blank, and every name can be read back."""
    encoded = token(name)

    assert untoken(encoded) == name
    assert not set(encoded) & set(".*> \t\r\n")
    assert encoded.isascii()


def test_names_in_subjects():
    assert token("a.b") == "a%2Eb"
    assert job_suffix("team a", "x.y-z_1") == "job.team%20a.x%2Ey-z_1"
    assert presence_suffix("agent", "*") == "presence.agent.%2A"
    assert names("job.team%20a.x%2Ey") == ("job", "team a", "x.y")
    with pytest.raises(ValueError, match="empty"):
        token("")
    with pytest.raises(ValueError, match=r"cell 'a\.b'"):
        Cell("a.b")


@pytest.mark.parametrize(
    ("pattern", "subject", "fits"),
    [
        ("job.>", "job.a.b", True),
        ("job.>", "job", False),
        ("job.*", "job.a.b", False),
        ("presence.agent.*", "presence.agent.x", True),
        ("presence.agent.*", "presence.check.x", False),
        ("config", "config", True),
        ("config", "configs", False),
    ],
)
def test_patterns(pattern, subject, fits):
    assert matches(pattern, subject) is fits


def test_requests_are_not_captured():
    """The stream takes in what belongs to the log, and no request or answer."""
    captured = Cell("main").captured()

    def caught(subject):
        return any(matches(pattern, subject) for pattern in captured)

    assert caught("sluice.main.job.a.b")
    assert caught("sluice.main.scheduler")
    assert not caught("sluice.main.query.list")
    assert not caught(Cell("main").control("scheduler", "digest"))


def test_addresses():
    first, second = addresses("nats://user:p%40ss@a:1, tls://b")

    assert (first.host, first.port, first.tls, first.user, first.password) == ("a", 1, False, "user", "p@ss")
    assert (second.host, second.port, second.tls) == ("b", 4222, True)
    assert b'"auth_token":"secret"' in addresses("nats://secret@a")[0].connect_line("x")
    with pytest.raises(ValueError, match="http://a"):
        addresses("http://a")


async def test_memory_log_reads_in_batches():
    log = MemoryLog()
    assert [batch async for batch in log.read(1, ["job.>"])] == []
