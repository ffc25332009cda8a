"""What a link makes of a manifest: its name, its rung, its size."""

from typing import Any

import pytest

from sluice.core.naming import short_hash
from sluice.events.base import JobKey
from sluice.protocol.cells import Order
from sluice.services.dispatcher.dispatching import is_older
from sluice.services.dispatcher.offers import SizeError, as_offer, queue_of, sized

OFFER = JobKey("default/train-0123456789")
THERE = JobKey(f"{OFFER}-{short_hash(['main'])}")


def test_rungs_are_constraints() -> None:
    """An offer has a name of its own, its origin, and may do what its rung allows."""
    manifest = {
        "kind": "Job",
        "metadata": {"name": "train", "uid": "x", "labels": {"team": "a"}},
        "spec": {"queueName": "lq"},
    }
    notes = {}
    for rung in ("Fits", "Borrows", "Preempts", "Stands"):
        offered = as_offer(manifest, Order(cell="near", job=OFFER, do="Offer", rung=rung), THERE, "main")
        notes[rung] = sorted(name.partition("/")[2] for name in offered["metadata"]["annotations"])
    assert notes == {
        "Fits": ["cannot-borrow", "cannot-preempt"],
        "Borrows": ["cannot-preempt"],
        "Preempts": [],
        "Stands": ["cannot-preempt"],
    }
    assert offered["metadata"]["labels"] == {"team": "a", "kueue.x-k8s.io/multikueue-origin": "main"}
    assert (offered["metadata"]["name"], queue_of(offered)) == (THERE.partition("/")[2], "lq")
    assert "uid" not in offered["metadata"]


def test_a_later_edition_says_which_it_is() -> None:
    """A copy of an earlier one that comes late is older, so that the cell ignores it."""
    manifest = {"kind": "Job", "metadata": {"name": "train", "generation": 9}, "spec": {}}
    order = Order(cell="near", job=OFFER, do="Offer", rung="Fits", edition=3)
    assert as_offer(manifest, order, THERE, "main")["metadata"]["generation"] == 3


OWN = "sluice.dev/v1alpha1"
RAY = {"workerGroupSpecs": [{"groupName": "Small", "replicas": 2, "numOfHosts": 2}]}


@pytest.mark.parametrize(
    ("kind", "spec", "pods", "want"),
    [
        (("batch/v1", "Job"), {"parallelism": 3}, {"main": 5}, {"parallelism": 5}),
        (("batch/v1", "Job"), {}, {"main": 1}, {}),
        (("batch/v1", "Job"), {"parallelism": 9, "completions": 4}, {"main": 4}, None),
        ((OWN, "Job"), {"replicas": 2, "minReplicas": 2}, {"main": 1}, {"replicas": 1, "minReplicas": 1}),
        ((OWN, "Job"), {"parallelism": 2}, {"main": 3}, {"parallelism": 3}),
        (
            (OWN, "Job"),
            {"podSets": [{"name": "ps"}, {"name": "w", "replicas": 2}]},
            {"ps": 1, "w": 4},
            {"podSets": [{"name": "ps"}, {"name": "w", "replicas": 4}]},
        ),
        (
            ("ray.io/v1", "RayCluster"),
            RAY,
            {"head": 1, "small": 6},
            {"workerGroupSpecs": [{"groupName": "Small", "replicas": 3, "numOfHosts": 2}]},
        ),
        (
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
            {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 2}}}]},
            {"a": 6},
            {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 3}}}]},
        ),
    ],
)
def test_manifests_get_the_size_that_the_job_has(
    kind: tuple[str, str], spec: dict[str, Any], pods: dict[str, int], want: dict[str, Any] | None
) -> None:
    """In the field that says it for their kind; a manifest that has that size stays as it is."""
    manifest = {"apiVersion": kind[0], "kind": kind[1], "spec": spec}
    assert sized(manifest, pods)["spec"] == (spec if want is None else want)


def test_a_size_that_a_kind_cannot_say_is_refused() -> None:
    with pytest.raises(SizeError, match="2 hosts"):
        sized({"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": RAY}, {"small": 5})


def test_older_generations_do_not_count() -> None:
    """The manager has ignored them, so what is passed on is not made of them."""
    new, old, unsaid = ({"metadata": {"generation": n}} for n in (4, 3, 0))
    assert is_older(old, new)
    assert not is_older(new, old)
    assert not is_older(unsaid, new)
