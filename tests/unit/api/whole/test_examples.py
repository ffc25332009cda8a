"""Manifests in the style of Kueue's documentation apply as they are (G1)."""

from pathlib import Path

import pytest

from sluice.api import kueue, sluice_v1
from sluice.api.defaults import default
from sluice.api.meta import Manifest
from sluice.api.scheme import kind_of
from sluice.api.validation import validate
from sluice.api.yaml import decode_yaml, manifests
from sluice.core.slices.job_request import job_request

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
FILES = [
    *sorted(EXAMPLES.glob("kueue/*.yaml")),
    *sorted(EXAMPLES.glob("checks/*/*.yaml")),
    EXAMPLES / "plain-job.yaml",
]


def read(name: str) -> list[Manifest]:
    return manifests((EXAMPLES / name).read_text(), name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_decode_default_and_validate(path: Path) -> None:
    """Every document of every example is taken without an error, and jobs have pods."""
    for document in decode_yaml(path.read_text()):
        assert document.problems(path.name) == []
        assert document.manifest is not None
        manifest = default(document.manifest)
        assert [str(error) for error in validate(manifest)] == []
        if kind_of(manifest).is_job:
            assert all(part.count > 0 and part.requests for part in job_request(manifest).pod_sets)


def test_older_spelling_means_the_same() -> None:
    """v1beta1's cohort, admissionChecks, Borrow and Preempt become their v1beta2 fields."""
    _, queue, check, cohort, _ = read("kueue/single-cluster-queue-v1beta1.yaml")

    assert isinstance(queue, kueue.ClusterQueue)
    assert queue.api_version == kueue.API_VERSION
    assert queue.spec.cohort_name == "research"
    assert queue.spec.flavor_fungibility == kueue.FlavorFungibility(
        when_can_borrow="MayStopSearch", when_can_preempt="MayStopSearch"
    )
    assert queue.spec.admission_checks_strategy is not None
    assert [rule.name for rule in queue.spec.admission_checks_strategy.admission_checks] == ["sample-prov"]
    assert isinstance(check, kueue.AdmissionCheck)
    assert isinstance(cohort, kueue.Cohort)
    assert cohort.spec.parent_name == "company"


def test_proposed_spelling_of_concurrent_admission_is_converted() -> None:
    """CA1: UpgradeOnly, minVariant and explicitVariants become the policy's fields."""
    _, queue = read("kueue/concurrent-admission.yaml")

    assert isinstance(queue, kueue.ClusterQueue)
    policy = queue.spec.concurrent_admission_policy
    assert policy is not None
    assert policy.migration == kueue.ConcurrentAdmissionMigration(
        mode="TryPreferredFlavors",
        constraints=kueue.MigrationConstraints(last_acceptable_variant_name="reservation-flavor"),
    )
    assert [variant.create_delay_seconds for variant in policy.explicit_variants] == [None, 7200]


def test_plain_job_has_one_pod_set() -> None:
    """The short form is one group of pods named main."""
    (job,) = read("plain-job.yaml")

    assert isinstance(job, sluice_v1.Job)
    request = job_request(default(job))
    (pods,) = request.pod_sets
    assert (request.queue_name, request.priority_class) == ("user-queue", "sample-priority")
    assert (pods.name, pods.count, pods.min_count) == ("main", 4, 2)
    assert pods.requests == {"cpu": 2000, "memory": 4 * 2**30}
