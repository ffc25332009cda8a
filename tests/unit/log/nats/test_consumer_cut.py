"""A reader that is slower than a cut notices: consumers go on behind it as if nothing were gone."""

from sluice.log.nats.consumer import Deliveries
from sluice.log.nats.protocol import Frame

PREFIX = "sluice.main."


def delivery(seq: int, number: int, pending: int) -> Frame:
    """Return a message as the server delivers it; *pending*: how many it has left then."""
    reply = f"$JS.ACK.SLUICE_main.c.1.{seq}.{number}.1767225600000000000.{pending}"
    return Frame(f"{PREFIX}scheduler".encode(), b"1", reply.encode(), b"", b"{}")


def test_messages_that_vanish_before_they_are_read_make_a_gap() -> None:
    """Of 9 left, 6 are gone with one delivery: nothing of it is handed out, and the position stays."""
    reader = Deliveries(PREFIX, 0)
    reader.restart(10)
    assert [entry.seq for entry in reader.take([delivery(1, 1, 9)], b"1")] == [1]

    assert reader.take([delivery(7, 2, 3)], b"1") == []

    assert reader.gap is not None
    assert reader.position == 1


def test_new_messages_and_other_subjects_make_none() -> None:
    """More are left than before, or sequences are skipped that it does not read: all is well."""
    reader = Deliveries(PREFIX, 0)
    reader.restart(2)

    found = reader.take([delivery(3, 1, 4), delivery(90, 2, 3)], b"1")

    assert [entry.seq for entry in found] == [3, 90]
    assert reader.gap is None


def test_buckets_lose_messages_as_a_matter_of_course() -> None:
    reader = Deliveries(PREFIX, 0, whole=False)
    reader.restart(10)

    assert [entry.seq for entry in reader.take([delivery(7, 1, 3)], b"1")] == [7]
