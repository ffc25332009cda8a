"""Labels and annotations that look like ours and mean nothing."""

from sluice.api import labels
from sluice.cli.commands.jobs.misspelt import misspelt


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
