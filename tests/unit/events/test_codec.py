"""Events, commits and outside messages as bytes."""

import datetime
import json
import re
from pathlib import Path

import msgspec
import pytest

from sluice import __version__
from sluice.events import codec, job
from sluice.events.base import WorkloadKey
from sluice.events.catalogue import EVENTS, SINCE, VERSIONS, WRITERS
from sluice.events.codec import (
    COMMIT_TYPE,
    FOREIGN,
    CloudEvent,
    CommitDecodeError,
    decode_commit,
    decode_message,
    encode_commit,
    encode_message,
    field_errors,
    may_go_on,
    message_id_of,
    rfc3339,
)
from sluice.events.commit import Commit, Step
from sluice.events.config import ObjectApplied
from sluice.events.scheduler import Admitted, Evicted

W = WorkloadKey("a/w")
STEPS = (
    Step(upto=7, at=1_767_225_600_000_001, events=(Admitted(cause=7, workload=W),)),
    Step(upto=9, at=1_767_225_600_000_002),
)


def _commit(**changes):
    data = {"writer": "scheduler", "version": 1, "steps": []} | changes
    return json.dumps(
        {
            "specversion": "1.0",
            "id": "1",
            "source": f"sluice/main/{data['writer']}",
            "type": COMMIT_TYPE,
            "subject": data["writer"],
            "data": data,
        }
    ).encode()


def test_commit_survives_the_wire():
    payload = encode_commit("main", "scheduler", "scheduler-3-x", STEPS)

    assert decode_commit(payload) == Commit(writer="scheduler", version=1, steps=STEPS)


def test_envelope_is_a_cloud_event():
    """Anything that reads CloudEvents reads commits."""
    message = json.loads(encode_commit("main", "scheduler", "scheduler-3-x", STEPS))

    assert {k: v for k, v in message.items() if k != "data"} == {
        "specversion": "1.0",
        "id": "scheduler-3-x",
        "source": "sluice/main/scheduler",
        "type": "sluice.commit",
        "subject": "scheduler",
        "time": "2026-01-01T00:00:00.000002Z",
        "datacontenttype": "application/json",
    }


def test_catalogue_has_every_event_once():
    """Each tag belongs to one event of one writer."""
    assert len(EVENTS) == sum(len(events) for events in WRITERS.values())
    assert set(VERSIONS) == set(WRITERS)
    assert EVENTS["Evicted"] is Evicted


def test_raw_objects_stay_bytes():
    event = ObjectApplied(cause=0, kind="Cohort", name="c", object=msgspec.Raw(b'{"a": 1}'))
    commit = decode_commit(encode_commit("main", "config", "x", [Step(upto=0, at=1, events=(event,))]))

    (decoded,) = commit.steps[0].events
    assert isinstance(decoded, ObjectApplied)
    assert bytes(decoded.object) == b'{"a": 1}'


@pytest.mark.parametrize("at", [0, 951_782_400_000_000, 1_709_164_799_999_999, 4_102_444_800_123_456])
def test_time_is_rfc3339(at):
    utc = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=at)

    assert rfc3339(at) == utc.isoformat(timespec="microseconds") + "Z"


def test_older_events_read_as_todays():
    """An event of an older version arrives with today's tag and meaning."""
    old = {"type": "Suspended", "cause": 3, "workload": "a/w", "reason": "PodsReady"}
    payload = _commit(version=0, steps=[{"upto": 3, "at": 5, "events": [old]}])

    assert decode_commit(payload).steps == (
        Step(upto=3, at=5, events=(Evicted(cause=3, workload=W, reason="PodsReadyTimeout"),)),
    )


def test_unknown_event_of_newer_code_is_named():
    event = {"type": "Teleported", "cause": 1}
    payload = _commit(version=2, steps=[{"upto": 3, "at": 5, "events": [event]}])

    with pytest.raises(
        CommitDecodeError, match=r"'Teleported' of writer 'scheduler'.*version 2.*knows 1"
    ) as e:
        decode_commit(payload)
    assert (e.value.writer, e.value.tag) == ("scheduler", "Teleported")


def test_newer_commit_of_known_events_is_read():
    """New fields and versions alone do not stop older code."""
    event = {"type": "Admitted", "cause": 1, "workload": "a/w", "mood": "fine"}
    commit = decode_commit(_commit(version=2, steps=[{"upto": 3, "at": 5, "events": [event]}]))

    assert commit.steps[0].events == (Admitted(cause=1, workload=W),)


def test_a_commit_that_is_not_for_older_releases_stops_them():
    """They know every tag in it, but would pass over a field that matters."""
    step = {
        "upto": 3,
        "at": 5,
        "events": [{"type": "Admitted", "cause": 1, "workload": "a/w", "mood": "bad"}],
    }
    with pytest.raises(CommitDecodeError, match=r"for release 99\.0\.0 and newer.*upgrade first") as error:
        decode_commit(_commit(since="99.0.0", steps=[step]), "scheduler", 9)
    assert error.value.writer == "scheduler"
    for since in ("", "0.0.9", __version__):
        assert decode_commit(_commit(since=since, steps=[step]), "scheduler", 9).steps
    for wrong in ("soon", "1.x", 3, None):  # which no release has written
        assert decode_commit(_commit(since=wrong, steps=[step]), "scheduler", 9) is FOREIGN
    assert decode_commit(_commit(since="99.0.0", steps=[step]), "slices", 9) is FOREIGN


def test_commits_say_for_which_releases_they_are(monkeypatch):
    """From the day on which a writer has an oldest one."""
    before = encode_commit("main", "scheduler", "scheduler-3-x", STEPS)
    assert b"since" not in before
    monkeypatch.setattr(codec, "SINCE", {"scheduler": __version__})
    after = encode_commit("main", "scheduler", "scheduler-3-x", STEPS)
    assert decode_commit(after).since == __version__
    assert decode_commit(after).steps == decode_commit(before).steps
    assert b"since" not in encode_commit("main", "slices", "slices-3-x", STEPS)


@pytest.mark.parametrize(
    ("since", "release", "may"),
    [("0.2.0", "0.10.0", True), ("0.10.0", "0.2.0", False), ("0.2.0", "0.2.0rc1", True), ("", "x", True)],
)
def test_releases_are_compared_by_their_numbers(since, release, may):
    assert may_go_on(since, release) is may


def test_the_oldest_release_that_may_go_on_is_one_that_there_is():
    """Of writers that there are; and today's release may go on from what it writes."""
    assert SINCE.keys() <= WRITERS.keys()
    assert all(may_go_on(since) for since in SINCE.values())


EVENT = {"type": "Admitted", "cause": 1, "workload": "a/w"}


def _step(upto: int = 1, at: int = 5, **event: object) -> dict[str, object]:
    return {"upto": upto, "at": at, "events": [EVENT | event]}


def test_a_newer_commit_that_cannot_be_read_stops_its_readers():
    """Of its owner only: it has decided something, whatever that may be."""
    for steps in ([{"upto": "x"}], 3, [_step(cause="x")]):
        with pytest.raises(CommitDecodeError, match="upgrade first"):
            decode_commit(_commit(version=2, steps=steps), "scheduler", 9)
        assert decode_commit(_commit(version=2, steps=steps), "slices", 9) is FOREIGN


def test_an_event_that_this_version_lacks_stops_its_readers():
    """A release may add events and keep its version."""
    with pytest.raises(CommitDecodeError, match="'Teleported'"):
        decode_commit(_commit(steps=[_step(type="Teleported")]), "scheduler", 9)


@pytest.mark.parametrize(
    "steps",
    [
        [{"upto": "x"}],
        3,
        None,
        [_step(cause="x")],
        [_step(type=["Admitted"])],
        [_step(type="")],
        [_step(upto=9)],
        [_step(upto=10**18)],
        [_step(upto=-1)],
        [_step(at=10**18)],
        [_step(at=-1)],
        [_step(upto=10**30)],
        [_step(), _step(upto=9)],
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_what_no_release_has_written_is_passed_over(steps, version):
    """The event and its version are known here: no release can have put it like this."""
    assert decode_commit(_commit(version=version, steps=steps), "scheduler", 9) is FOREIGN


@pytest.mark.parametrize("version", [-1, -(10**12), -(10**30), "1", None])
def test_a_version_that_is_none(version):
    assert decode_commit(_commit(version=version, steps=[_step()]), "scheduler", 9) is FOREIGN


def test_an_old_event_that_lacks_what_its_upcaster_reads():
    assert decode_commit(_commit(version=0, steps=[_step(type="Suspended")]), "scheduler", 9) is FOREIGN


@pytest.mark.parametrize(
    "changed",
    [
        {"source": "ci"},
        {"source": "sluice/main/slices"},
        {"source": ""},
        {"subject": "slices"},
        {"subject": ""},
        {"type": "JobSubmitted"},
        {"type": ""},
        {"source": 3},
    ],
)
@pytest.mark.parametrize("version", [0, 1, 99])
def test_a_commit_that_says_of_itself_that_another_wrote_it(changed, version):
    message = json.loads(_commit(version=version, steps=[_step()])) | changed

    assert decode_commit(json.dumps(message).encode(), "scheduler", 9) is FOREIGN


def test_a_commit_on_the_subject_of_another():
    """Whatever its version, and whether it can be read or not."""
    for version in (0, 1, 99):
        for tag in ("Admitted", "Teleported"):
            payload = _commit(version=version, steps=[_step(type=tag)])
            assert decode_commit(payload, "slices", 9) is FOREIGN
    assert decode_commit(_commit(steps=[_step()]), "scheduler", 9).steps


def test_every_reader_of_a_log_says_whose_subject_it_read():
    """Or it would take for a decision what others pass over."""
    calls = re.compile(r"\bdecode_commit\(([^()]*)\)")
    root = Path(__file__).parents[3]
    told = [
        (path.relative_to(root), arguments)
        for folder in ("libs", "services")
        for path in sorted((root / folder).rglob("*.py"))
        if path.name != "codec.py"
        for arguments in calls.findall(path.read_text())
    ]
    assert len(told) > 15
    assert [place for place, arguments in told if arguments.count(",") != 2] == []


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff\xfe", b"[]", b"{}", b'{"data": 3}', b"[" * 100_000, b'{"data":' + b"[" * 100_000],
)
def test_what_is_no_commit_is_passed_over(payload):
    """It stands on a service's subject for ever, where every reader comes by."""
    assert decode_commit(payload) is FOREIGN
    assert message_id_of(payload) == ""


def test_message_survives_the_wire():
    payload = encode_message(
        message_id="1",
        source="ci",
        event_type="JobScaled",
        subject="a/j",
        at=0,
        data=job.JobScaled(pod_sets={"main": 3}),
    )
    event = decode_message(payload)

    assert isinstance(event, CloudEvent)
    assert (event.id, event.source, event.type, event.subject) == ("1", "ci", "JobScaled", "a/j")
    assert msgspec.json.decode(event.data, type=job.JobScaled) == job.JobScaled(pod_sets={"main": 3})


def test_extensions_are_tolerated():
    event = decode_message(b'{"specversion":"1.0","id":"1","source":"s","type":"t","traceparent":"00-1"}')

    assert isinstance(event, CloudEvent)
    assert not event.data


@pytest.mark.parametrize(
    ("payload", "field", "kind"),
    [
        (b'{"specversion":"1.0","id":"1","source":"s"}', "type", "FieldValueRequired"),
        (b'{"specversion":"1.0","id":"","source":"s","type":"t"}', "id", "FieldValueRequired"),
        (b'{"specversion":"0.3","id":"1","source":"s","type":"t"}', "specversion", "FieldValueTypeInvalid"),
        (b'{"specversion":"1.0","id":1,"source":"s","type":"t"}', "id", "FieldValueTypeInvalid"),
        (b"\xff\x00", "", "FieldValueInvalid"),
        (b'{"id": ', "", "FieldValueInvalid"),
        (b'{"specversion":"1.0","id":"\xff","source":"s","type":"t"}', "", "FieldValueInvalid"),
        (b"[]", "", "FieldValueTypeInvalid"),
    ],
)
def test_bad_messages_say_what_is_wrong(payload, field, kind):
    """Undecodable bytes, missing and wrong fields become field errors, never exceptions."""
    errors = decode_message(payload)

    assert isinstance(errors, tuple)
    assert [(e.field, e.type) for e in errors] == [(field, kind)]


@pytest.mark.parametrize(
    ("data", "field", "kind"),
    [
        (b"{}", "data.podSets", "FieldValueRequired"),
        (b'{"podSets": {"main": "x"}}', "data.podSets[...]", "FieldValueTypeInvalid"),
        (b'{"podSets": {}, "podSet": 1}', "data.podSet", "FieldUnknown"),
        (b'{"podSets": ', "data", "FieldValueInvalid"),
    ],
)
def test_bad_data_says_what_is_wrong(data, field, kind):
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(data, type=job.JobScaled)

    assert [(e.field, e.type) for e in field_errors(caught.value, "data")] == [(field, kind)]
