"""What a message about a job says is read in one go, and never otherwise than in two."""

import msgspec
import pytest

from sluice.events.codec import decode_message
from sluice.replay.simulate.executors import KINDS
from sluice.replay.simulate.inputs import _outline, _queues_in

MESSAGE = {
    "specversion": "1.0",
    "id": "1",
    "source": "test",
    "type": "JobSubmitted",
    "data": {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "main"}}, "spec": {"queueName": "other"}},
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"type": "JobFinished", "data": {"attempt": 1}},
        {"type": "JobFinished", "data": None},
        {"time": 5},
        {"subject": None},
        {"id": ""},
        {"source": ""},
        {"specversion": "2.0"},
        {"data": {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": 7}}}},
        {"data": []},
        {"type": ""},
    ],
    ids=str,
)
def test_what_is_read_in_one_go_is_what_the_decider_reads(change):
    """A message is an executor's report only if it is one to the slice-aggregator."""
    payload = msgspec.json.encode({**MESSAGE, **change})
    kind, manifest = _outline(payload)
    message = decode_message(payload)

    assert kind == ("" if isinstance(message, tuple) else message.type)
    if kind == "JobSubmitted":
        good = change == {}
        assert list(_queues_in(manifest)) == (["main", "other"] if good else [""])
    else:
        assert (kind in KINDS) == (change.get("type") == "JobFinished")


def test_what_is_no_message_has_no_kind():
    assert _outline(b"{") == ("", None)
    assert _outline(b'{"specversion":"1.0","id":"1","source":"s","type":"JobSubmitted"}') == (
        "JobSubmitted",
        None,
    )
