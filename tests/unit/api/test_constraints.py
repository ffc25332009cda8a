"""Admission constraints by field and by annotation mean the same, for jobs of every kind (AX1)."""

from typing import Any

import pytest

from sluice.api.decode import decode_object
from sluice.api.errors import InvalidError
from sluice.api.validation import check_job_update, validate
from sluice.core.slices.job_request import job_request

CANNOT_PREEMPT = "kueue.x-k8s.io/cannot-preempt"
CANNOT_BORROW = "kueue.x-k8s.io/cannot-borrow"
ALLOWED = "kueue.x-k8s.io/workload-allowed-resource-flavors"

POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
CLUSTER = {"headGroupSpec": {"template": POD}, "workerGroupSpecs": []}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "batch": ("batch/v1 Job", {"template": POD}),
    "own": ("sluice.dev/v1alpha1 Job", {"command": ["true"]}),
    "ray-cluster": ("ray.io/v1 RayCluster", CLUSTER),
    "ray-job": ("ray.io/v1 RayJob", {"rayClusterSpec": CLUSTER, "shutdownAfterJobFinishes": True}),
    "jobset": (
        "jobset.x-k8s.io/v1alpha2 JobSet",
        {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": POD}}}]},
    ),
    "workload": ("kueue.x-k8s.io/v1beta2 Workload", {"podSets": [{"name": "main", "template": POD}]}),
}


def made(kind: str, field: dict[str, Any] | None = None, notes: dict[str, str] | None = None) -> Any:
    words, spec = KINDS[kind]
    version, name = words.split()
    if field is not None:
        spec = {**spec, "admissionConstraints": field}
    metadata = {"name": "a", "namespace": "default", "annotations": notes or {}}
    return decode_object({"apiVersion": version, "kind": name, "metadata": metadata, "spec": spec})


def texts(manifest: Any) -> list[str]:
    return [str(error) for error in validate(manifest)]


@pytest.mark.parametrize("kind", KINDS)
def test_field_and_annotation_are_equal(kind: str) -> None:
    by_field = made(kind, {"preemption": "Never", "borrowing": "Never", "allowedResourceFlavors": ["spot"]})
    by_note = made(kind, None, {CANNOT_PREEMPT: "true", CANNOT_BORROW: "true", ALLOWED: "spot"})
    for manifest in (by_field, by_note):
        assert texts(manifest) == []
        request = job_request(manifest)
        assert request.cannot_preempt
        assert request.cannot_borrow
        assert request.allowed_flavors == ("spot",)
    assert check_job_update(by_field, by_note, running=True) == []
    assert check_job_update(by_note, by_field, running=True) == []
    plain = job_request(made(kind))
    assert not plain.cannot_preempt
    assert not plain.cannot_borrow


@pytest.mark.parametrize("kind", KINDS)
def test_both_with_different_meanings_are_refused(kind: str) -> None:
    field = {"preemption": "Never", "borrowing": "Never", "allowedResourceFlavors": ["a", "b"]}
    assert texts(made(kind, field, {CANNOT_PREEMPT: "true", CANNOT_BORROW: "true", ALLOWED: "b,a"})) == []
    assert texts(made(kind, field, {CANNOT_PREEMPT: "false", CANNOT_BORROW: "false", ALLOWED: "a"})) == [
        'spec.admissionConstraints.preemption: Invalid value: "Never": '
        f'contradicts metadata.annotations[{CANNOT_PREEMPT}], which is "false"',
        'spec.admissionConstraints.borrowing: Invalid value: "Never": '
        f'contradicts metadata.annotations[{CANNOT_BORROW}], which is "false"',
        'spec.admissionConstraints.allowedResourceFlavors: Invalid value: ["a","b"]: '
        f'contradicts metadata.annotations[{ALLOWED}], which is "a"',
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_change_names_what_the_user_wrote(kind: str) -> None:
    """Where it is now; or where it was, if it was taken out."""
    plain, by_field = made(kind), made(kind, {"borrowing": "Never"})
    by_note = made(kind, None, {CANNOT_BORROW: "true"})
    field, note = "spec.admissionConstraints.borrowing", f"metadata.annotations[{CANNOT_BORROW}]"
    for new, old, place in (
        (by_field, plain, field),
        (by_note, plain, note),
        (plain, by_field, field),
        (plain, by_note, note),
    ):
        (error,) = check_job_update(new, old, running=False, reserved=True)
        assert (error.field, error.detail) == (place, "field is immutable")
        assert check_job_update(new, old, running=False) == []


@pytest.mark.parametrize("kind", KINDS)
def test_other_values_are_refused_by_their_field(kind: str) -> None:
    with pytest.raises(InvalidError) as caught:
        made(kind, {"preemption": "Always"})
    assert "spec.admissionConstraints.preemption" in str(caught.value)


def test_parts_of_a_job_have_none_of_their_own() -> None:
    part = {"template": {"spec": {"template": POD, "admissionConstraints": {"borrowing": "Never"}}}}
    jobset = {"replicatedJobs": [{"name": "a", **part}]}
    ray = {
        "rayClusterSpec": {**CLUSTER, "admissionConstraints": {"borrowing": "Never"}},
        "shutdownAfterJobFinishes": True,
    }
    for kind, spec, place in (
        ("jobset", jobset, "spec.replicatedJobs[0].template.spec"),
        ("ray-job", ray, "spec.rayClusterSpec"),
    ):
        version, name = KINDS[kind][0].split()
        manifest = decode_object(
            {"apiVersion": version, "kind": name, "metadata": {"name": "a"}, "spec": spec}
        )
        assert texts(manifest) == [
            f"{place}.admissionConstraints: Forbidden: belongs to the whole job: spec.admissionConstraints"
        ]
