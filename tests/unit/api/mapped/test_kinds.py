"""Teams' kinds of jobs: found by apiVersion and kind, read by their mapping, sent on without it."""

import msgspec
import pytest

from sluice.api.decode import DecodeError, any_own_kind, decode_json, decode_object
from sluice.api.mapped import JobKindSpec, Mapping, OwnJob, as_submitted, mappings_of, pods_of
from sluice.api.scheme import kind_of
from sluice.api.validation import validate
from tests.support.own_kinds import API, job_kind, simulation

SPEC = msgspec.convert(job_kind(versions=["v1", "v2"])["spec"], JobKindSpec)


def own(api_version: str, kind: str) -> Mapping | None:
    return mappings_of([SPEC]).get((api_version, kind))


def test_each_version_that_is_named_goes_by_the_mapping() -> None:
    assert mappings_of([SPEC]) == dict.fromkeys(
        [(API, "Simulation"), ("lab.example.org/v2", "Simulation")], SPEC.mapping
    )


def test_a_job_is_sent_as_it_was_written() -> None:
    """What says how it is read is not in it; a status that was exported is accepted."""
    written = simulation() | {"status": {"phase": "Done"}}
    job = decode_json(msgspec.json.encode(written), own_kinds=own)
    assert isinstance(job, OwnJob)
    assert validate(job) == []
    assert [(pods.name, pods.count, pods.field) for pods in pods_of(job)] == [
        ("coordinator", 1, "spec.coordinator"),
        ("fine", 2, "spec.grids[0].template"),
    ]
    assert kind_of(job).is_job
    assert msgspec.to_builtins(as_submitted(job)) == written


def test_kinds_that_there_are_keep_their_meaning() -> None:
    """Whatever anybody describes: a Job is a Job."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {}}
    with pytest.raises(DecodeError):
        decode_object(job | {"mapping": {}}, own_kinds=lambda *_: SPEC.mapping)


def test_what_may_be_a_kind_of_a_team() -> None:
    assert any_own_kind(API, "Simulation") is not None
    assert any_own_kind("example.k8s.io/v1", "Simulation") is None
    assert any_own_kind("kubeflow.org/v1", "MXJob") is None
