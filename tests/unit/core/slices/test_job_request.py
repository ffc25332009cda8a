"""A job's pod sets and requests, as admission counts them."""

import json
from typing import Any

import pytest

from sluice.api.decode import decode_object
from sluice.core.slices.job_request import JobRequest, is_plain, job_request, pod_requests, resources_of
from sluice.events.base import PodSet


def request(kind: str, spec: dict[str, Any], version: str = "batch/v1", **metadata: Any) -> JobRequest:
    return job_request(
        decode_object(
            {"apiVersion": version, "kind": kind, "metadata": {"name": "j", **metadata}, "spec": spec}
        )
    )


def container(cpu: Any = None, **more: Any) -> dict[str, Any]:
    resources = {} if cpu is None else {"requests": {"cpu": cpu}}
    return {"name": "c", "resources": resources, **more}


def template(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **more}}


def requests_of(pod: dict[str, Any]) -> dict[str, int]:
    (part,) = request("Job", {"template": pod}).pod_sets
    return part.requests


def counts(found: JobRequest) -> dict[str, int]:
    return {part.name: part.count for part in found.pod_sets}


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        (template(container(1)), 1000),
        (template(container(1), container("500m")), 1500),
        (template(container(1), initContainers=[container(3)]), 3000),
        (template(container(4), initContainers=[container(3)]), 4000),
        (template(container(1), initContainers=[container(2, restartPolicy="Always")]), 3000),
        # The init container runs beside the sidecar that was started before it.
        (template(container(1), initContainers=[container(2, restartPolicy="Always"), container(4)]), 6000),
        (template(container(1), initContainers=[container(4), container(2, restartPolicy="Always")]), 4000),
        (template(container(1), overhead={"cpu": "250m"}), 1250),
        (template(container(1), resources={"requests": {"cpu": 8}}), 8000),
        (template(container(resources={"limits": {"cpu": 2}})), 2000),
        (template(container(resources={"limits": {"cpu": 2}, "requests": {"cpu": 1}})), 1000),
    ],
)
def test_a_pod_needs_the_most_it_uses_at_any_time(pod: dict[str, Any], cpu: int) -> None:
    """Containers and sidecars together, or an init container; limits stand in for requests."""
    assert requests_of(pod) == {"cpu": cpu}


def test_resources_are_in_order_of_name() -> None:
    """Equal shapes are equal bytes, whatever the order of the manifest."""
    resources = {"requests": {"memory": "1Gi", "cpu": 1, "a.b/c": 2}}

    assert list(requests_of(template(container(resources=resources)))) == ["a.b/c", "cpu", "memory"]


def test_batch_job_runs_no_more_pods_than_must_complete() -> None:
    pods = template(container(1))

    assert counts(request("Job", {"template": pods})) == {"main": 1}
    assert counts(request("Job", {"template": pods, "parallelism": 5})) == {"main": 5}
    assert counts(request("Job", {"template": pods, "parallelism": 5, "completions": 3})) == {"main": 3}
    assert counts(request("Job", {"template": pods, "parallelism": 2, "completions": 3})) == {"main": 2}


def test_labels_and_annotations_are_read() -> None:
    """Queue, priority, time limit, least parallelism, constraints, gates and opt-in (AX1, WS1)."""
    prefix = "kueue.x-k8s.io/"
    found = request(
        "Job",
        {"template": template(container(1)), "parallelism": 4},
        namespace="team",
        labels={
            f"{prefix}queue-name": "q",
            f"{prefix}priority-class": "high",
            f"{prefix}max-exec-time-seconds": "60",
            "app": "x",
        },
        annotations={
            f"{prefix}job-min-parallelism": "2",
            f"{prefix}cannot-preempt": "true",
            f"{prefix}cannot-borrow": "false",
            f"{prefix}preemption-gates": "a, b",
            f"{prefix}elastic-job": "true",
        },
    )

    assert (found.key, found.queue_name, found.priority_class) == ("team/j", "q", "high")
    assert found.maximum_execution_time_s == 60
    assert found.pod_sets[0].min_count == 2
    assert (found.cannot_preempt, found.cannot_borrow, found.elastic) == (True, False, True)
    assert found.preemption_gates == ("a", "b")
    assert "app" not in found.labels


def test_scheduling_constraints_reach_the_pod_set() -> None:
    """Node selector, required affinity and tolerations decide which flavors fit (SC4)."""
    term = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    pods = template(
        container(1), nodeSelector={"a": "b"}, affinity=affinity, tolerations=[{"operator": "Exists"}]
    )
    (part,) = request("Job", {"template": pods}).pod_sets

    assert part.node_selector == {"a": "b"}
    assert part.node_affinity[0].match_expressions[0].key == "k"
    assert part.tolerations[0].operator == "Exists"


def test_ray_job_has_head_workers_and_submitter() -> None:
    """A worker group has replicas times hosts pods; the submitter asks for what KubeRay's does."""
    cluster = {
        "headGroupSpec": {"template": template(container(2))},
        "workerGroupSpecs": [
            {"groupName": "Small", "replicas": 3, "numOfHosts": 2, "template": template(container(1))}
        ],
    }
    job = request("RayJob", {"rayClusterSpec": cluster}, "ray.io/v1")
    bare = request("RayJob", {"rayClusterSpec": cluster, "submissionMode": "HTTPMode"}, "ray.io/v1")

    assert counts(job) == {"head": 1, "small": 6, "submitter": 1}
    assert job.pod_sets[2].requests == {"cpu": 500, "memory": 200 * 2**20}
    assert counts(bare) == counts(request("RayCluster", cluster, "ray.io/v1")) == {"head": 1, "small": 6}


def test_jobset_multiplies_replicas_and_pods() -> None:
    part = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": template()}}}

    assert counts(request("JobSet", {"replicatedJobs": [part]}, "jobset.x-k8s.io/v1alpha2")) == {"w": 6}


def test_plain_job_with_pod_sets() -> None:
    """Groups keep their own counts, resources and least counts."""
    sets = [
        {"name": "leader", "resources": {"cpu": 1}},
        {"name": "workers", "replicas": 4, "minReplicas": 2, "resources": {"gpu": 1}},
    ]
    found = request("Job", {"podSets": sets, "queueName": "q", "priority": 7}, "sluice.dev/v1alpha1")

    assert found.pod_sets == (
        PodSet(name="leader", count=1, requests={"cpu": 1000}),
        PodSet(name="workers", count=4, requests={"gpu": 1}, min_count=2),
    )
    assert (found.queue_name, found.priority) == ("q", 7)


def test_requests_do_not_share_state() -> None:
    """Computing a pod's requests twice gives equal, separate results."""
    manifest = decode_object(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {"template": template(container(1), initContainers=[container(3)])},
        }
    )
    pod = manifest.spec.template.spec  # type: ignore[attr-defined]
    first = pod_requests(pod)
    first["cpu"] = 0

    assert pod_requests(pod) == {"cpu": 3000}


def test_only_jobs_are_jobs() -> None:
    with pytest.raises(TypeError, match="Namespace is no job"):
        job_request(decode_object({"apiVersion": "v1", "kind": "Namespace"}))


LIMITED = {"name": "c", "resources": {"requests": {"cpu": 1}, "limits": {"cpu": 2}}}
KINDS: dict[str, dict[str, Any]] = {
    "batch/v1 Job": {"template": template(container(1))},
    "jobset.x-k8s.io/v1alpha2 JobSet": {
        "replicatedJobs": [
            {"name": "a", "template": {"spec": {"template": template(container(1))}}},
            {"name": "b", "template": {"spec": {"template": template(container(2))}}},
        ]
    },
    "ray.io/v1 RayCluster": {
        "headGroupSpec": {"template": template(container(1))},
        "workerGroupSpecs": [{"groupName": "w", "template": template(container(2))}],
    },
    "ray.io/v1 RayJob": {
        "entrypoint": "main.py",
        "rayClusterSpec": {
            "headGroupSpec": {"template": template(container(1))},
            "workerGroupSpecs": [{"groupName": "w", "template": template(container(2))}],
        },
        "submitterPodTemplate": template(container(3)),
    },
    "kueue.x-k8s.io/v1beta2 Workload": {
        "podSets": [
            {"name": "a", "count": 1, "template": template(container(1))},
            {"name": "b", "count": 2, "template": template(container(2))},
        ]
    },
}


def decoded(kind: str, spec: dict[str, Any]) -> Any:
    version, _, name = kind.partition(" ")
    return decode_object({"apiVersion": version, "kind": name, "metadata": {"name": "j"}, "spec": spec})


@pytest.mark.parametrize("kind", KINDS)
def test_resources_of_every_kind_are_in_the_order_of_its_pod_sets(kind: str) -> None:
    """What limit ranges are held against are the very pods that the request was made of."""
    manifest = decoded(kind, KINDS[kind])
    asked = [pods.requests for pods in job_request(manifest).pod_sets]

    assert [pod.containers[0].asked() for pod in resources_of(manifest)] == asked
    assert is_plain(manifest)


@pytest.mark.parametrize("kind", KINDS)
def test_one_pod_that_says_more_than_requests_makes_a_job_not_plain(kind: str) -> None:
    """Limits of the last pod set alone: its requests do not say all."""
    text = json.dumps(KINDS[kind])
    last = text.rfind('{"name": "c", "resources": ')
    end = text.index("}}}", last) + 3
    spec = json.loads(text[:last] + json.dumps(LIMITED) + text[end:])

    assert not is_plain(decoded(kind, spec))
