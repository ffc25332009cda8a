"""Errors of shape and of values come in one answer, and nothing is said that mending would disprove."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluice.api.decode import DecodeError, decode_object
from sluice.api.defaults import default
from sluice.api.errors import FieldError
from sluice.api.validation import validate
from sluice.api.validation.everything import MOST, all_errors
from sluice.api.yaml import decode_yaml
from tests.support.own_kinds import job_kind

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
Step = str | int


def _valid() -> list[dict[str, Any]]:
    """Return each kind of manifest of the examples, the longest one of each."""
    found: dict[tuple[str, str], dict[str, Any]] = {("", "JobKind"): job_kind()}
    for file in sorted(EXAMPLES.rglob("*.yaml")):
        for document in decode_yaml(file.read_bytes()):
            if document.manifest is None or validate(default(document.manifest)):
                continue
            written = document.written
            key = (written["apiVersion"], written["kind"])
            if key not in found or len(str(written)) > len(str(found[key])):
                found[key] = written
    return list(found.values())


VALID = _valid()


def leaves(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from leaves(item, (*path, key))


def changed(manifest: dict[str, Any], path: tuple[Step, ...], how: str) -> dict[str, Any]:
    """Return the manifest with a value of another type there, without it, or with its name misspelt."""
    whole: Any = copy.deepcopy(manifest)
    here = whole
    for step in path[:-1]:
        here = here[step]
    last = path[-1]
    if how == "typed" or isinstance(here, list):
        here[last] = ["wrong"] if not isinstance(here[last], list) else "wrong"
    elif how == "missing":
        del here[last]
    else:
        here[f"{last}x"] = here.pop(last)
    return dict(whole)


def errors_of(manifest: dict[str, Any]) -> tuple[tuple[FieldError, ...], tuple[FieldError, ...]]:
    """Return what is wrong with the shape, and all that is wrong."""
    try:
        decode_object(manifest, custom=True)
    except DecodeError as error:
        return error.errors, all_errors(error)
    return (), ()


def cases() -> list[tuple[dict[str, Any], tuple[Step, ...], str]]:
    return [
        (manifest, path, how)
        for manifest in VALID
        for path in leaves(manifest)
        for how in ("typed", "missing", "misspelt")
        if path[0] not in ("apiVersion", "kind")
    ]


CASES = cases()


def test_of_a_manifest_that_is_right_but_for_its_shape_nothing_else_is_said() -> None:
    """Whatever field of whatever kind has another type, is missing, or is misspelt."""
    more = {}
    for manifest, path, how in CASES:
        shape, everything = errors_of(changed(manifest, path, how))
        assert everything[: len(shape)] == shape
        if everything[len(shape) :]:
            more[manifest["kind"], path, how] = [str(error) for error in everything[len(shape) :]]
    assert more == {}


WRONG = [case for case in CASES if case[2] != "missing" and errors_of(changed(*case))[0]]


@given(st.data())
def test_two_wrong_shapes_are_no_more_than_two(data: st.DataObject) -> None:
    manifest, path, how = data.draw(st.sampled_from(WRONG))
    _, other, _ = data.draw(st.sampled_from([case for case in WRONG if case[0] is manifest]))
    try:
        broken = changed(changed(manifest, path, how), other, "typed")
    except (KeyError, TypeError, IndexError, AttributeError):
        return  # the one is within the other
    shape, everything = errors_of(broken)
    assert everything == shape


def with_wrong_name(manifest: dict[str, Any]) -> dict[str, Any]:
    whole = copy.deepcopy(manifest)
    whole["metadata"]["labels"] = {**whole["metadata"].get("labels", {}), "no label": "!"}
    return whole


@given(st.sampled_from([case for case in WRONG if case[1][0] != "metadata"]))
def test_a_wrong_value_elsewhere_is_said_with_a_wrong_shape(
    case: tuple[dict[str, Any], tuple[Step, ...], str],
) -> None:
    manifest, path, how = case
    shape, everything = errors_of(changed(with_wrong_name(manifest), path, how))
    assert shape
    assert {error.field for error in everything[len(shape) :]} == {"metadata.labels"}


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: Wrong_Name, labels: {kueue.x-k8s.io/queue-name: q}}
spec:
  parallelism: two
  template:
    spec:
      restartPolcy: Never
      containers:
      - {name: main, image: x, resources: {requests: {cpu: -1}}}
"""


def test_every_error_comes_with_its_line() -> None:
    (document,) = decode_yaml(JOB)
    assert [(error.field, line) for error, line in zip(document.errors, document.lines, strict=True)] == [
        ("spec.parallelism", 6),
        ("spec.template.spec.restartPolcy", 9),
        ("metadata.name", 4),
        ("spec.template.spec.containers[0].resources.requests[cpu]", 11),
    ]


def test_of_older_spellings_the_fields_are_those_that_were_written() -> None:
    """The shape and the values are judged in today's spelling."""
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": {"cohort": "No Cohort", "namespaceSelector": 7},
    }
    _, everything = errors_of(queue)
    assert [error.field for error in everything] == ["spec.namespaceSelector", "spec.cohort"]


def test_of_very_many_errors_no_more_are_looked_for() -> None:
    many = {**VALID[0], "spec": {f"x{i}": i for i in range(MOST + 1)}}
    shape, everything = errors_of(many)
    assert everything == shape
