"""Labels and annotations that look like ours and mean nothing."""

from sluice.api import labels
from sluice.cli.commands.jobs.misspelt import means_nothing_of, misspelt, without_effect


def test_what_is_near_to_a_known_key_is_named() -> None:
    keys = ["kueue.x-k8s.io/cannot-prempt", "kueue.x-k8s.io/Queue-Name", "kueue.x-k8s.io/elastic-jobs"]
    assert dict(misspelt(keys)) == dict(
        zip(keys, (labels.CANNOT_PREEMPT, labels.QUEUE_NAME, labels.ELASTIC_JOB), strict=True)
    )


def test_what_is_known_or_somebody_elses_is_left_alone() -> None:
    """What Kueue alone reads, other prefixes, and words that are like nothing."""
    keys = (
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/pod-group-name",
        "kueue.x-k8s.io/our-own-word",
        "example.com/cannot-prempt",
        "cannot-prempt",
    )
    assert list(misspelt(keys)) == []


def test_what_has_no_effect_is_said_with_its_path() -> None:
    """Also in the template of pods; what counts, and the same words elsewhere, are passed over."""
    topology, group = "kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/pod-group-name"
    template = {"metadata": {"annotations": {topology: "rack"}}, "spec": {topology: "no annotation"}}
    manifest = {
        "metadata": {"labels": {group: "g", labels.QUEUE_NAME: "q"}},
        "spec": {"replicatedJobs": [{"template": template}]},
    }
    found = dict(without_effect(manifest))
    assert list(found) == [
        f"metadata.labels[{group}]",
        f"spec.replicatedJobs[0].template.metadata.annotations[{topology}]",
    ]
    assert "topologies" in found[f"spec.replicatedJobs[0].template.metadata.annotations[{topology}]"]


def test_the_priority_class_of_pods_is_not_that_of_the_job() -> None:
    """In a template; our own kind has a field of that name, which counts."""
    assert list(without_effect({"spec": {"priorityClassName": "high"}})) == []
    pod = {"spec": {"priorityClassName": "high"}}
    assert [path for path, _ in without_effect({"spec": {"template": pod}})] == [
        "spec.template.spec.priorityClassName"
    ]


def test_of_an_object_in_the_cell_it_is_said_what_has_no_effect() -> None:
    """Its status says nothing of that; of what is no manifest, labels are looked at all the same."""
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "a", "resourceVersion": "7", "labels": {"kueue.x-k8s.io/cannot-prempt": "true"}},
        "spec": {"admissionScope": scope},
        "status": {"anything": 1},
    }
    said = means_nothing_of(queue)
    assert [text.partition(" ")[0] for text in said] == [
        "metadata.labels[kueue.x-k8s.io/cannot-prempt]",
        "spec.admissionScope",
    ]
    view = {"kind": "View", "metadata": {"labels": {"kueue.x-k8s.io/priority-boost": "7"}}}
    assert len(means_nothing_of(view)) == 1
    assert means_nothing_of({"kind": "Agent", "metadata": {"name": "a"}}) == []
