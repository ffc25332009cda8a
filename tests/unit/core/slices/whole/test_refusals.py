"""Bad input is answered with what is wrong, and stops nothing."""

from collections.abc import Iterator

import msgspec
import pytest

from sluice.core.workload.inputs import MAX_BYTES
from sluice.events.envelope import Message
from sluice.events.slices import Rejected
from sluice.protocol.subjects import presence_suffix
from tests.support.slices_world import QUEUE, World, manifest, names, refused


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    # Whatever came before: another job goes through.
    assert names(world.submit("other")) == ["WorkloadCreated"]
    world.verify()


def envelope(**changes: object) -> bytes:
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "test",
        "type": "JobSubmitted",
        "data": manifest(),
    }
    return msgspec.json.encode({k: v for k, v in (event | changes).items() if v is not None})


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"", "not valid JSON: Input data was truncated"),
        (b"\xff\xfe", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "Expected `object`, got `array`"),
        (envelope(id=None), "id: Required value"),
        (envelope(id=""), "id: Required value: must not be empty"),
        (envelope(type=None), "type: Required value"),
        (envelope(specversion="0.3"), 'specversion: Invalid value: "": Invalid enum value'),
        (envelope(type="JobExploded"), 'type: Unsupported value: "JobExploded": supported values: '),
        (envelope(data=None), "data: Required value"),
        (envelope(data=[1]), "expected mapping: a manifest"),
        (envelope(data={}), "apiVersion: Required value"),
        (envelope(data={"apiVersion": "v1", "kind": "Secret"}), 'kind: Unsupported value: "Secret"'),
        (
            envelope(data={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}),
            'kind: Unsupported value: "Namespace": supported values: "Job", "RayCluster"',
        ),
    ],
)
def test_messages_that_cannot_be_read(world: World, payload: bytes, error: str) -> None:
    found = refused(world.envelope("job.default.a", payload))
    assert any(error in each for each in found), found


@pytest.mark.parametrize("name", ["x" * 254, "\N{SNOWMAN}" * 85, "x" * 200_000])
def test_a_claim_under_a_name_that_fits_no_subject(world: World, name: str) -> None:
    """Its loss could never be said. Any other name can claim, and be lost."""
    world.submit()
    world.admit()
    claim = {"attempt": 1, "ready": False}
    (error,) = refused(world.job("JobPodsReady", {**claim, "executor": name}))
    assert error.startswith("executor: Invalid value")
    assert names(world.job("JobPodsReady", {**claim, "executor": "a.b >*\r\n"})) == ["JobClaimed"]
    world.message(presence_suffix("agent", "a.b >*\r\n"), "Lost", {})
    assert names(world.settle()) == ["WorkloadStopped", "ExecutorLost"]


def test_manifests_with_mistakes(world: World) -> None:
    """Misspelt, missing and impossible fields are named by their path, all of them at once."""
    broken = manifest()
    broken["spec"]["paralellism"] = 1
    broken["spec"]["template"]["spec"]["containers"][0]["comand"] = ["x"]
    errors = refused(world.job("JobSubmitted", broken))
    assert [error.split(":")[0] for error in errors] == [
        "spec.template.spec.containers[0].comand",
        "spec.paralellism",
    ] or len(errors) == 2
    assert refused(world.submit(queue=None)) == [f"metadata.labels[{QUEUE}]: Required value"]
    assert refused(world.submit(parallelism=-1))[0].startswith("spec.parallelism: Invalid value: -1")
    assert refused(world.submit(priority_class="missing")) == [
        'metadata.labels[kueue.x-k8s.io/priority-class]: Not found: "missing"'
    ]


def test_manifest_and_subject_must_agree(world: World) -> None:
    """A message speaks of the job on whose subject it is; writers may be allowed only some subjects."""
    payload = envelope(data=manifest("b", namespace="elsewhere"))
    assert refused(world.envelope("job.default.a", payload)) == [
        'metadata.namespace: Invalid value: "elsewhere": '
        "the message came on the subject of namespace 'default'",
        "metadata.name: Invalid value: \"b\": the message came on the subject of job 'a'",
    ]


def test_misshapen_subjects(world: World) -> None:
    for subject in ("job.a", "job.a.b.c", "job.."):
        assert refused(world.envelope(subject, envelope()))
    # Not delivered, as it reads no such subject; and refused if it were.
    message = Message(subject="presence.agent.a.b", payload=envelope(type="Lost", data={}))
    other = World()
    other.service.decider.apply(other.state, message, 1, other.now)
    assert refused(other.settle())


def test_names_with_dots(world: World) -> None:
    """A name with a dot is one token of its subject; one with a blank is no name."""
    assert names(world.envelope("job.default.a%2Eb", envelope(data=manifest("a.b")))) == ["WorkloadCreated"]
    assert "default/a.b" in world.state.jobs
    errors = refused(world.envelope("job.default.a%20b", envelope(data=manifest("a b"))))
    assert errors[0].startswith('metadata.name: Invalid value: "a b": a lowercase RFC 1123 subdomain')


@pytest.mark.parametrize(
    ("event_type", "data"),
    [
        ("JobScaled", {"podSets": {"main": 2}}),
        ("JobPodsReady", {}),
        ("JobPodsReclaimable", {"pods": {}}),
        ("JobStopped", {}),
        ("JobFinished", {}),
        ("JobDeleted", {}),
    ],
)
def test_events_for_unknown_jobs(world: World, event_type: str, data: object) -> None:
    (event,) = world.job(event_type, data)
    assert isinstance(event, Rejected)
    assert (event.cause, event.subject, event.event_type) == (world.seq, "job.default.a", event_type)
    assert [str(error) for error in event.errors] == ['subject: Not found: "default/a"']


@pytest.mark.parametrize(
    ("event_type", "data", "error"),
    [
        ("JobFinished", {"succes": True}, "succes: Unknown field"),
        ("JobFinished", {"attempt": "one"}, "attempt: Invalid value"),
        ("JobFinished", {"attempt": 7}, "attempt: Invalid value: 7: the job's present attempt is 1"),
        ("JobScaled", {}, "podSets: Required value"),
        ("JobScaled", {"podSets": {}}, "podSets: Required value"),
        ("JobScaled", {"podSets": {"nobody": 2}}, 'podSets[nobody]: Not found: "nobody"'),
        ("JobScaled", {"podSets": {"main": -1}}, "podSets[main]: Invalid value: -1"),
        ("JobScaled", {"podSets": {"main": 2**31}}, "podSets[main]: Invalid value: 2147483648"),
        (
            "JobPodsReclaimable",
            {"pods": {"main": 2}},
            "pods[main]: Invalid value: 2: must be between 0 and 1",
        ),
        (
            "JobPodsReclaimable",
            {"pods": {"main": -1}},
            "pods[main]: Invalid value: -1: must be between 0 and 1",
        ),
        (
            "JobPodsReclaimable",
            {"pods": {"main": 5}, "counts": {"main": 5}},
            "pods[main]: Invalid value: 5: must be between 0 and 1",
        ),
    ],
)
def test_wrong_fields(world: World, event_type: str, data: object, error: str) -> None:
    world.submit()
    world.admit()
    (found,) = refused(world.job(event_type, data))
    assert found.startswith(error)


def test_all_wrong_fields_of_a_message_are_named(world: World) -> None:
    """As of a manifest, with the paths that are in the message."""
    world.submit()
    world.admit()
    scaled = {"podSets": {"main": "3", "other": None}, "generatin": 2}
    assert refused(world.job("JobScaled", scaled)) == [
        'podSets[main]: Invalid value: "3": expected integer, got string',
        "podSets[other]: Invalid value: null: expected integer, got null",
        'generatin: Unknown field: did you mean "generation"?',
    ]


def test_what_only_the_job_can_tell_is_named_beside_what_cannot_be_read(world: World) -> None:
    world.submit()
    world.admit()
    scaled = {"podSets": {"main": "3", "mian": 1, "other": None}, "generatin": 2}
    assert refused(world.job("JobScaled", scaled)) == [
        'podSets[main]: Invalid value: "3": expected integer, got string',
        "podSets[other]: Invalid value: null: expected integer, got null",
        'generatin: Unknown field: did you mean "generation"?',
        'podSets[mian]: Not found: "mian"',
    ]
    assert refused(world.job("JobScaled", {"podSets": {"main": -1, "mian": 1}, "x": 1})) == [
        "x: Unknown field",
        "podSets[main]: Invalid value: -1: must be between 0 and 2147483647",
        'podSets[mian]: Not found: "mian"',
    ]


def test_a_manifest_is_told_of_its_queue_and_class_beside_what_contradicts_itself(world: World) -> None:
    """By the fields that it has: our own kind names both in its spec."""
    spec = {"command": ["true"], "replicas": -1, "priorityClassName": "none"}
    own = {"apiVersion": "sluice.dev/v1alpha1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}
    found = refused(world.job("JobSubmitted", own))
    assert [error.partition(":")[0] for error in found] == [
        "spec.replicas",
        "spec.queueName",
        "spec.priorityClassName",
    ]


def test_late_reports_are_stale(world: World) -> None:
    """What is said of an attempt that is over, or of another incarnation, is noted and changes nothing."""
    world.submit()
    world.admit()
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    for event_type in ("JobFinished", "JobStopped", "JobPodsReady"):
        (event,) = world.job(event_type, {"attempt": 1})
        assert (type(event).__name__, event.reason) == ("InputsIgnored", "Stale")  # type: ignore[attr-defined]
    world.release()
    world.admit()
    for data in ({"attempt": 1}, {"attempt": 2, "uid": "somebody-else"}):
        assert names(world.job("JobFinished", data)) == ["InputsIgnored"]
    assert names(world.job("JobFinished", {"attempt": 2})) == ["WorkloadFinished"]


def test_huge_and_deep_messages(world: World) -> None:
    """What would not fit into a step, or overflow a stack, is refused before it is read."""
    fat = manifest()
    fat["metadata"]["annotations"] = {"note": "x" * MAX_BYTES}
    assert refused(world.job("JobSubmitted", fat)) == ["Too long: may not be more than 1048576 bytes"]
    deep = b'{"specversion":"1.0","id":"1","source":"t","type":"JobFinished","data":' + b"[" * 100_000
    hidden = rb'{"id":"\\","data":' + b"[" * 100_000
    for payload in (deep, hidden):
        assert refused(world.envelope("job.default.a", payload)) == [
            'Invalid value: "": nested deeper than 64 levels'
        ]
    brackets = envelope(data=manifest(command=["echo", "[{" * 1000]))
    assert names(world.envelope("job.default.a", brackets)) == ["WorkloadCreated"]


def test_errors_are_bounded(world: World) -> None:
    """A message with a thousand mistakes does not make a Rejected event of a megabyte."""
    broken = manifest()
    broken["spec"] |= {f"wrong{n}": "x" * 200 for n in range(1000)}
    (event,) = world.job("JobSubmitted", broken)
    assert isinstance(event, Rejected)
    assert len(msgspec.json.encode(event)) < 20_000
    assert "more errors" in event.errors[-1].detail
