"""Strict decoding: every error of a document at once, with the path and line that the user wrote."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.api import batch_v1, kueue
from sluice.api.decode import MAX_DEPTH, DecodeError, decode_json, decode_object
from sluice.api.errors import FieldError, invalid, required
from sluice.api.yaml import decode_yaml, manifests

QUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "a"}}


def texts(value: object) -> list[str]:
    with pytest.raises(DecodeError) as raised:
        decode_object(value)
    return [str(error) for error in raised.value.errors]


def problems(text: str) -> list[str]:
    return [line for document in decode_yaml(text) for line in document.problems("f.yaml")]


def test_every_error_is_reported_with_its_path() -> None:
    """Unknown, missing and mistyped fields of one document come together, near misses suggested."""
    flavor = {"name": "f", "resources": [{"nme": "cpu", "nominalQuota": [1]}]}
    spec = {"resourceGroups": [{"flavors": [flavor]}], "queueingStrategy": "FIFO", "cohort": "x"}

    assert texts({**QUEUE, "spec": spec}) == [
        'spec.resourceGroups[0].flavors[0].resources[0].nme: Unknown field: did you mean "name"?',
        "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: [1]: "
        "expected integer or number or string, got list",
        "spec.resourceGroups[0].flavors[0].resources[0].name: Required value",
        'spec.queueingStrategy: Unsupported value: "FIFO": supported values: "BestEffortFIFO", "StrictFIFO"',
        'spec.cohort: Unknown field: did you mean "cohortName"?',
    ]


def test_mistyped_label_says_how_to_write_it() -> None:
    """A number where text belongs: the key is in the path, and the remedy in the text."""
    metadata = {"name": "a", "labels": {"x/y.z": 1}}

    assert texts({**QUEUE, "metadata": metadata}) == [
        "metadata.labels[x/y.z]: Invalid value: 1: expected string, got integer; put it in quotes"
    ]


def test_unknown_kinds_say_what_to_do() -> None:
    """A wrong kind or apiVersion says what was meant, or what to do; a missing one that it is missing."""
    assert texts({"apiVersion": "v1", "kind": "ClusterQueu"}) == [
        'kind: Unsupported value: "ClusterQueu": did you mean "ClusterQueue"?'
    ]
    assert texts({"apiVersion": "v1", "kind": "Pot"}) == [
        'kind: Unsupported value: "Pot": `sluice get --help` names the kinds that there are'
    ]
    assert texts({"apiVersion": "batch/v1", "kind": "CronJob"}) == [
        'kind: Unsupported value: "CronJob": submit its jobTemplate as a Job whenever it is due'
    ]
    assert texts({"apiVersion": "v9", "kind": "Namespace"}) == [
        'apiVersion: Unsupported value: "v9": supported values: "v1"'
    ]
    assert texts({}) == ["apiVersion: Required value", "kind: Required value"]
    assert texts([]) == ['Invalid value: "list": expected mapping: a manifest']


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"nonsense", b'{"a":1} x'])
def test_bytes_that_are_no_json_are_an_error(data: bytes) -> None:
    """Undecodable bytes are a field error like any other, never another exception."""
    with pytest.raises(DecodeError, match="not JSON"):
        decode_json(data)


def test_null_means_absent() -> None:
    """As in Kubernetes; tools write nulls for what they do not set."""
    spec = {"resourceGroups": None, "cohortName": None}

    assert decode_object({**QUEUE, "spec": spec}) == decode_object(QUEUE)


def test_deep_nesting_is_refused() -> None:
    """Hostile input does not exhaust the stack."""
    deep: dict[str, object] = {}
    for _ in range(MAX_DEPTH + 2):
        deep = {"x": deep}

    assert "nested deeper" in texts({**QUEUE, "status": deep})[0]
    with pytest.raises(DecodeError):
        decode_json(b'{"apiVersion":' + b"[" * 100_000)


def test_fast_and_slow_decoding_agree() -> None:
    """What the prepared decoder takes is what the walk takes."""
    job = batch_v1.Job(spec=batch_v1.JobSpec(parallelism=2))
    data = msgspec.json.encode(job)

    assert decode_json(data) == decode_object(msgspec.json.decode(data)) == job


def test_encoded_manifests_say_what_they_are() -> None:
    """apiVersion and kind are never left out, so that a stored object can be read by itself."""
    assert decode_json(msgspec.json.encode(kueue.ClusterQueue())) == kueue.ClusterQueue()
    assert decode_json(msgspec.json.encode(kueue.Configuration())) == kueue.Configuration()


YAML = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: good}
---
# nothing here
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: bad
spec:
  cohortName: c
  stopPolicy: Never
  cohortName: d
---
apiVersion: v1
kind: Namespace
metadata:
  name: on
  labels: {a: yes, b: "1.10", c: 2020-01-01, d: 12:30}
"""


def test_yaml_names_document_and_line() -> None:
    """A duplicate key and a wrong word are found in their lines; the other documents are read."""
    good, bad, namespace = decode_yaml(YAML)

    assert good.manifest is not None
    assert bad.problems("f.yaml") == [
        'f.yaml:14: document 3: ClusterQueue "bad": spec.cohortName: Duplicate value: "cohortName": '
        "this key occurs twice",
        'f.yaml:13: document 3: ClusterQueue "bad": spec.stopPolicy: Unsupported value: "Never": '
        'supported values: "Hold", "HoldAndDrain", "None"',
    ]
    assert namespace.manifest is not None


def test_yaml_scalars_are_what_they_look_like() -> None:
    """`yes`, dates and times are text: only true and false are booleans."""
    *_, namespace = decode_yaml(YAML)

    assert namespace.manifest is not None
    metadata = namespace.manifest.metadata  # type: ignore[attr-defined]
    assert metadata.name == "on"
    assert metadata.labels == {"a": "yes", "b": "1.10", "c": "2020-01-01", "d": "12:30"}


@pytest.mark.parametrize(
    "text",
    ["a: [", "a: b: c", "\t- x", "x: !!python/object:os.system y", "? [a]\n: b", "a: *b", "\x00"],
)
def test_broken_yaml_is_a_document_with_errors(text: str) -> None:
    """A syntax error has a line, and nothing is executed."""
    (problem,) = problems(text)

    assert re.fullmatch(r"f\.yaml:[12]: document 1: manifest: Unreadable: not YAML: .+", problem, re.DOTALL)


def test_aliases_cannot_blow_up() -> None:
    """Nine levels of ten aliases each are refused, not expanded."""
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]

    assert "do aliases repeat" in problems("\n".join(lines))[0]


def test_lists_are_opened() -> None:
    """What `get -o yaml` prints applies again; errors point into the item."""
    text = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: a}}
- apiVersion: v1
  kind: Namespace
  metadata:
    nam: b
"""
    good, bad = decode_yaml(text)

    assert good.manifest is not None
    assert bad.lines == (8,)
    with pytest.raises(DecodeError, match=r"f\.yaml:8: document 1"):
        manifests(text, "f.yaml")


@given(st.text(max_size=60))
def test_no_text_makes_decoding_crash(text: str) -> None:
    """Any text is manifests or errors; no exception escapes."""
    for document in decode_yaml(text):
        assert document.manifest is not None or document.errors


@given(st.binary(max_size=60))
def test_no_bytes_make_decoding_crash(data: bytes) -> None:
    """Any bytes decode or raise DecodeError."""
    with pytest.raises(DecodeError):
        decode_json(data)


def test_field_errors_read_as_kubernetes_prints_them() -> None:
    """Place, what is wrong, the value, the detail."""
    assert str(invalid("spec.x", "v", "bad")) == 'spec.x: Invalid value: "v": bad'
    assert str(invalid("spec.x", 17, "bad")) == "spec.x: Invalid value: 17: bad"
    assert str(required("spec.x")) == "spec.x: Required value"
    assert str(FieldError(field="", detail="d", type="Unreadable")) == "Unreadable: d"


_PARALLELISM = '"spec":{"parallelism":%s}'


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (_PARALLELISM, 2**31, "spec.parallelism: Invalid value: 2147483648: must be at most 2147483647"),
        (_PARALLELISM, 2**64, 'spec.parallelism: Invalid value: "18446744073709551616": must fit'),
        ('"spec":{"template":{"spec":{"x":[%s]}}}', -(2**63) - 1, "spec.template.spec.x[0]: Invalid value"),
    ],
)
def test_numbers_that_nothing_could_hold_are_refused(where: str, value: int, message: str) -> None:
    """Also where anything goes: an integer beyond 64 bits would break the first snapshot."""
    text = '{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},' + where % value + "}"
    with pytest.raises(DecodeError) as caught:
        decode_json(text.encode())
    assert message in str(caught.value)
