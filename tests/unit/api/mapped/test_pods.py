"""Manifests of Kueue's kinds make the pod sets that Kueue makes of them: names, order, counts, requests."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.api.decode import DecodeError, decode_json, decode_object
from sluice.api.errors import FieldError
from sluice.api.mapped import MAPPED, MappedJob, with_groups
from sluice.api.mapped.pods import read
from sluice.api.validation import validate, warnings
from sluice.api.yaml import manifests
from sluice.core.slices.job_request import job_request

EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "kueue-kinds"
MI, GI = 2**20, 2**30

Sets = list[tuple[str, int, dict[str, int]]]

BY_HAND: dict[str, Sets] = {
    "PyTorchJob": [
        ("master", 1, {"cpu": 1000, "memory": 200 * MI}),
        ("worker", 2, {"cpu": 2000, "memory": 200 * MI}),
    ],
    "TFJob": [
        ("ps", 2, {"cpu": 500, "memory": 100 * MI}),
        ("worker", 4, {"cpu": 1000, "memory": 200 * MI}),
    ],
    "XGBoostJob": [
        ("master", 1, {"cpu": 500, "memory": 256 * MI}),
        ("worker", 2, {"cpu": 500, "memory": 256 * MI}),
    ],
    "PaddleJob": [("worker", 2, {"cpu": 1000, "memory": 256 * MI})],
    "JAXJob": [("worker", 2, {"cpu": 1000, "memory": 200 * MI})],
    "MPIJob": [
        ("launcher", 1, {"cpu": 1000, "memory": GI}),
        ("worker", 2, {"cpu": 1000, "memory": GI}),
    ],
    "TrainJob": [("node", 2, {"cpu": 4000, "memory": 8 * GI, "nvidia.com/gpu": 1})],
    "RayService": [
        ("head", 1, {"cpu": 2000, "memory": 2 * GI}),
        ("small-group", 1, {"cpu": 500, "memory": 2 * GI}),
    ],
    # 1g, and the least overhead of 384 MiB, as a tenth would be less.
    "SparkApplication": [
        ("driver", 1, {"cpu": 1000, "memory": 1408 * MI}),
        ("executor", 2, {"cpu": 1000, "memory": 1408 * MI}),
    ],
    # Two groups of one leader and two workers.
    "LeaderWorkerSet": [("leader", 2, {"cpu": 100}), ("worker", 4, {"cpu": 200})],
    "StatefulSet": [("main", 3, {"cpu": 100})],
    "Deployment": [("main", 3, {"cpu": 3000})],
    "AppWrapper": [
        ("sample-pytorch-job-0", 1, {"cpu": 1000}),
        ("sample-pytorch-job-1", 2, {"cpu": 2000}),
        ("sample-pytorch-job-2", 4, {"cpu": 200}),
    ],
    "Pod": [("main", 1, {"cpu": 3000})],
    "PodGroup": [("role-0", 1, {"cpu": 3000}), ("role-1", 2, {"cpu": 1000})],
}


def examples() -> dict[str, MappedJob]:
    found: dict[str, MappedJob] = {}
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for _, manifest in with_groups(manifests(path.read_text())):
            assert isinstance(manifest, MappedJob)
            assert manifest.kind not in found
            found[manifest.kind] = manifest
    return found


def test_every_kind_has_an_example() -> None:
    assert sorted(examples()) == sorted(BY_HAND) == sorted(kind for _, kind in MAPPED)


@pytest.mark.parametrize("kind", BY_HAND)
def test_pod_sets_are_those_that_kueue_makes(kind: str) -> None:
    manifest = examples()[kind]
    named = manifest.metadata.name or manifest.metadata.generate_name
    assert named
    assert [error for error in validate(manifest) if not error.field.startswith("metadata.name")] == []
    request = job_request(manifest)
    assert request.queue_name == "user-queue"
    assert [(pods.name, pods.count, pods.requests) for pods in request.pod_sets] == BY_HAND[kind]


def made(kind: str, spec: dict[str, Any], **metadata: Any) -> MappedJob:
    (version,) = [version for version, name in MAPPED if name == kind]
    manifest = decode_object(
        {"apiVersion": version, "kind": kind, "metadata": {"name": "a", **metadata}, "spec": spec}
    )
    assert isinstance(manifest, MappedJob)
    return manifest


def template(cpu: object = 1) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}


def sets(job: MappedJob) -> list[tuple[str, int]]:
    return [(pods.name, pods.count) for pods in job_request(job).pod_sets]


def wrong(job: MappedJob) -> list[str]:
    return [str(error) for error in validate(job)]


@given(
    replicas=st.integers(0, 50),
    size=st.integers(1, 50),
    leader=st.booleans(),
)
def test_a_leader_is_one_of_its_group(replicas: int, size: int, leader: bool) -> None:
    """However many groups and whatever their size: size pods in each, the leader among them."""
    group: dict[str, Any] = {"size": size, "workerTemplate": template()}
    if leader:
        group["leaderTemplate"] = template()
    found = sets(made("LeaderWorkerSet", {"replicas": replicas, "leaderWorkerTemplate": group}))
    assert sum(count for _, count in found) == replicas * size
    assert [name for name, _ in found] == (["leader", "worker"] if leader else ["main"])


@given(parallelism=st.integers(0, 9), completions=st.none() | st.integers(0, 9), replicas=st.integers(1, 5))
def test_wrapped_jobs_ask_for_what_they_ask_alone(
    parallelism: int, completions: int | None, replicas: int
) -> None:
    """An AppWrapper's pod sets are those of the objects in it: the same counts, under other names."""
    job = {"parallelism": parallelism, "template": template()}
    if completions is not None:
        job["completions"] = completions
    part = {"name": "w", "replicas": replicas, "template": {"spec": job}}
    alone: list[dict[str, Any]] = [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": job},
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "b"},
            "spec": {"replicatedJobs": [part]},
        },
    ]
    wrapper = made("AppWrapper", {"components": [{"template": one} for one in alone]})
    counts = [pods.count for one in alone for pods in job_request(decode_object(one)).pod_sets]
    assert sets(wrapper) == [(f"a-{i}", count) for i, count in enumerate(counts)]


@given(st.permutations(["Chief", "Master", "PS", "Worker", "Evaluator"]), st.integers(0, 5))
def test_roles_come_in_the_order_of_kueue(roles: list[str], left: int) -> None:
    """The manifest's order does not matter; roles that are not there make no pod set."""
    written = {role: {"template": template()} for role in roles[left:]}
    found, errors = read(made("TFJob", {"tfReplicaSpecs": written}))
    expected = [role.lower() for role in ("Chief", "Master", "PS", "Worker", "Evaluator") if role in written]
    assert [pods.name for pods in found] == expected
    assert bool(errors) == (not expected)


def test_a_spark_application_asks_for_what_spark_computes() -> None:
    """Typed fields win over properties; Python has more overhead; memory outside of the heap counts."""
    job = made(
        "SparkApplication",
        {
            "type": "Python",
            "sparkConf": {
                "spark.driver.memory": "4g",
                "spark.executor.memory": "9g",
                "spark.executor.memoryOverhead": "512m",
                "spark.executor.pyspark.memory": "1g",
                "spark.memory.offHeap.enabled": "true",
                "spark.memory.offHeap.size": str(256 * MI),
                "spark.kubernetes.driver.request.cores": "1500m",
            },
            "driver": {"cores": 3},
            "executor": {"memory": "2g", "cores": 2, "instances": 5, "gpu": {"name": "g/p", "quantity": 1}},
        },
    )
    assert wrong(job) == []
    driver, executor = job_request(job).pod_sets
    assert driver.requests == {"cpu": 1500, "memory": (4096 + 1638) * MI}
    assert (executor.count, executor.requests) == (
        5,
        {"cpu": 2000, "g/p": 1, "memory": (2048 + 512 + 1024 + 256) * MI},
    )


def test_errors_name_the_fields_that_users_wrote() -> None:
    job = made(
        "PyTorchJob",
        {
            "runPolicy": {"ttlSecondsAfterFinished": "soon"},
            "pytorchReplicaSpecs": {
                "Master": {"template": {"spec": {"containers": [{"name": "m", "imagee": "x"}]}}},
                "Worker": {"replicas": "two", "template": template("much")},
            },
        },
    )
    assert wrong(job) == [
        'spec.runPolicy.ttlSecondsAfterFinished: Invalid value: "soon": must be a number of seconds that is'
        " not negative",
        "spec.pytorchReplicaSpecs.Master.template.spec.containers[0].imagee: Unknown field: did you mean"
        ' "image"?',
        'spec.pytorchReplicaSpecs.Worker.replicas: Invalid value: "two": expected integer, got string',
    ]
    (bad,) = validate(made("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"template": template("much")}}}))
    place = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].resources.requests[cpu]"
    assert isinstance(bad, FieldError)
    assert bad.field == place


@pytest.mark.parametrize(
    ("kind", "spec", "text"),
    [
        ("MPIJob", {}, "spec: Required value: pods of a kind that is admitted: at least one of"),
        ("StatefulSet", {}, "spec.template: Required value"),
        ("TrainJob", {"trainer": {"numNodes": 2}}, "spec.trainer.resourcesPerNode: Required value"),
        ("AppWrapper", {}, "spec.components: Required value: the objects that it wraps"),
        (
            "PodGroup",
            {"pods": [template()], "totalCount": 2},
            "spec.totalCount: Invalid value: 2: the group has",
        ),
        ("SparkApplication", {"driver": {"memory": "much"}}, 'spec.driver.memory: Invalid value: "much"'),
        (
            "SparkApplication",
            {"dynamicAllocation": {"enabled": True}},
            "spec.dynamicAllocation.enabled: Invalid value: true: a kueue managed job should not use",
        ),
    ],
)
def test_what_cannot_be_admitted_is_refused(kind: str, spec: dict[str, Any], text: str) -> None:
    found = wrong(made(kind, spec))
    assert found
    assert found[0].startswith(text)


def test_what_has_no_effect_is_said() -> None:
    job = made("MPIJob", {"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}})
    (text,) = warnings(job)
    assert text.startswith("spec.runPolicy.schedulingPolicy has no effect: ")


def test_a_pod_of_a_group_is_no_job_of_its_own() -> None:
    pod = made("Pod", template()["spec"], labels={"kueue.x-k8s.io/pod-group-name": "g"})
    (text,) = wrong(pod)
    assert text.startswith("metadata.labels[kueue.x-k8s.io/pod-group-name]: Forbidden")
    ((_, group),) = with_groups([pod])
    assert isinstance(group, MappedJob)
    assert (group.kind, group.metadata.name, sets(group)) == ("PodGroup", "g", [("main", 1)])


def test_a_group_that_is_admitted_fast_has_its_whole_number() -> None:
    """One pod of it is enough, as with Kueue, if all are alike."""
    marks = {"kueue.x-k8s.io/pod-group-name": "g"}
    notes = {"kueue.x-k8s.io/pod-group-total-count": "5", "kueue.x-k8s.io/pod-group-fast-admission": "true"}
    pod = made("Pod", template()["spec"], labels=marks, annotations=notes)
    ((_, group),) = with_groups([pod])
    assert isinstance(group, MappedJob)
    assert (wrong(group), sets(group)) == ([], [("main", 5)])


def test_no_kind_can_be_elastic() -> None:
    notes = {"kueue.x-k8s.io/elastic-job": "true"}
    job = made("StatefulSet", {"template": template()}, annotations=notes)
    assert wrong(job)[0].startswith("metadata.annotations[kueue.x-k8s.io/elastic-job]: Forbidden")


WORDS = """
spec template metadata containers initContainers replicas size numOfHosts groupName labels driver executor
sparkConf memory memoryOverheadFactor cores coreRequest instances gpu name quantity sidecars nodeSelector
tolerations affinity annotations requests limits resources components podSets path apiVersion kind pods
totalCount fastAdmission trainer runPolicy resourcesPerNode numNodes pytorchReplicaSpecs Master Worker
headGroupSpec suspend rayClusterConfig workerGroupSpecs leaderWorkerTemplate leaderTemplate workerTemplate
ttlSecondsAfterFinished admissionConstraints dynamicAllocation enabled
"""
NAMES = sorted(WORDS.split())
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", "1g", "2", "x", "template.spec", "template", "v1", "Pod", "batch/v1", "Job", "9" * 400]
    )
)
ANY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=25,
)


@given(st.sampled_from(sorted(MAPPED)), st.dictionaries(st.sampled_from(NAMES), ANY, max_size=4), ANY)
def test_whatever_is_written_is_read_or_refused(
    key: tuple[str, str], spec: dict[str, Any], role: Any
) -> None:
    """No spec stops whoever reads it: it is refused, or what it asks for can be computed."""
    for name in ("driver", "executor", "components", "pods", "trainer"):
        if spec.get(name) is None:
            spec[name] = role
    job = MappedJob(api_version=key[0], kind=key[1], spec=spec)
    warnings(job)
    fields = [error.field for error in validate(job)]
    if all(field.startswith("metadata") for field in fields):
        job_request(job)


@pytest.mark.parametrize("value", [5, "x", True, [5], [[]], {"a": 5}, {}, [], None, 1.5])
@pytest.mark.parametrize(
    "name",
    [
        "template",
        "sidecars",
        "initContainers",
        "nodeSelector",
        "tolerations",
        "labels",
        "gpu",
        "cores",
        "memory",
    ],
)
def test_parts_of_a_spark_application_may_be_anything(name: str, value: Any) -> None:
    """Also parts of its template: what has no shape is refused, by the field that it is in."""
    for driver in (
        {name: value},
        {"template": {"spec": {name: value, "containers": value}, "metadata": value}},
        {"template": {"spec": value}},
        {"template": {"spec": {"containers": [{"resources": value}, value]}, "metadata": {name: value}}},
        {
            "template": {"spec": {"containers": [{"resources": {"requests": value, "limits": value}}]}},
            "gpu": {"name": "g", "quantity": value},
        },
    ):
        job = made("SparkApplication", {"driver": driver, "sparkConf": value, "memoryOverheadFactor": value})
        if not wrong(job):
            job_request(job)


@pytest.mark.parametrize("depth", [100, 400, 900])
def test_what_is_nested_too_deep_is_refused(depth: int) -> None:
    """Before anybody recurses into it, also from JSON."""
    inner = "[" * depth + "]" * depth
    text = (
        '{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"volumes":' + inner + "}}}}"
    )
    with pytest.raises(DecodeError) as found:
        decode_json(text)
    assert "nested" in str(found.value) or "not JSON" in str(found.value)
