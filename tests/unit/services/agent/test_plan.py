"""What an agent makes of a manifest."""

from typing import Any

import msgspec
import pytest

from sluice.api.decode import decode_object
from sluice.events.base import JobKey, WorkloadKey
from sluice.protocol.dispatch import DispatchEntry, DispatchPodSet
from sluice.services.agent.agent import can_run
from sluice.services.agent.config import load
from sluice.services.agent.errors import PlanError
from sluice.services.agent.isolation import inherited
from sluice.services.agent.plan import Plan, expand, make_plan, pod_env, resolve
from sluice.services.agent.policies import describe_exit
from tests.support.slices_world import manifest


def entry(*pod_sets: DispatchPodSet) -> DispatchEntry:
    return DispatchEntry(
        job=JobKey("team/train"),
        uid="u",
        state="Running",
        attempt=3,
        workload=WorkloadKey("team/job-train-12345"),
        pod_sets=pod_sets or (DispatchPodSet(name="main", count=2),),
    )


def plan(job: dict[str, Any], *pod_sets: DispatchPodSet) -> Plan:
    return make_plan(decode_object(job), entry(*pod_sets))


def test_granted_pods_count_and_not_those_asked_for() -> None:
    """With partial admission fewer pods run than the manifest says; completions stay."""
    (pods,) = plan(manifest(parallelism=8, completions=8)).pod_sets
    assert (pods.parallelism, pods.completions) == (2, 8)


def test_defaults_are_those_of_kubernetes() -> None:
    """Neither parallelism nor completions: one pod; parallelism alone: a work queue; six retries."""
    job = manifest()
    del job["spec"]["parallelism"]
    found = plan(job)
    assert (found.pod_sets[0].completions, found.backoff_limit) == (1, 6)
    assert plan(manifest(parallelism=2)).pod_sets[0].completions is None


def test_completions_may_follow_the_size() -> None:
    """By annotation, as Kueue has it: an Indexed job of as many completions as pods, whatever size it has."""
    job = manifest(parallelism=4, completions=4, completionMode="Indexed")
    assert plan(job).pod_sets[0].completions == 4
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/job-completions-equal-parallelism": "true"}
    assert plan(job).pod_sets[0].completions == 2


def test_limits_per_index_and_policies() -> None:
    """With a limit per index there is none for the job; policies are those of Indexed jobs, or refused."""
    job = manifest(completions=2, completionMode="Indexed", backoffLimitPerIndex=1, maxFailedIndexes=1)
    found = plan(job)
    assert found.backoff_limit > 10**9
    assert (found.pod_sets[0].backoff_limit_per_index, found.pod_sets[0].max_failed_indexes) == (1, 1)
    job["spec"]["successPolicy"] = {"rules": [{"succeededIndexes": "0-1,x"}]}
    with pytest.raises(PlanError, match=r"successPolicy.rules\[0\] cannot be understood"):
        plan(job)
    job["spec"]["successPolicy"] = None
    job["spec"]["podFailurePolicy"] = {"rules": [{"action": "Panic", "onExitCodes": {}}]}
    with pytest.raises(PlanError, match=r"podFailurePolicy.rules\[0\] cannot be understood"):
        plan(job)


def test_variables_refer_to_earlier_ones() -> None:
    """`$(NAME)` in values and commands, `$$(NAME)` for itself; unknown names stay."""
    job = manifest(command=["echo", "$(GREETING) $(NOBODY) $$(GREETING) $(SLUICE_POD_INDEX)"])
    job["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "WHO", "value": "world"},
        {"name": "GREETING", "value": "hello $(WHO) $(LATER)"},
        {"name": "LATER", "value": "x"},
        {"name": "SLUICE_ATTEMPT", "value": "a lie"},
    ]
    own = pod_env(entry(), entry().pod_sets[0], 1, indexed=True, agent="x", cell="main")
    command, env = resolve(plan(job).pod_sets[0], own)
    assert command == ["echo", "hello world $(LATER) $(NOBODY) $(GREETING) 1"]
    assert env["SLUICE_ATTEMPT"] == "3"


def test_downward_api() -> None:
    """Name, namespace and index can be had by fieldRef; other sources are refused by name."""
    job = manifest()
    job["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "NS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    ]
    own = pod_env(entry(), entry().pod_sets[0], 0, indexed=False, agent="x", cell="main")
    assert resolve(plan(job).pod_sets[0], own)[1]["NS"] == "team"
    job["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "SECRET", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}}
    ]
    with pytest.raises(PlanError, match="variable SECRET"):
        plan(job)


def test_pods_know_where_they_are() -> None:
    pods = DispatchPodSet(
        name="main",
        count=2,
        flavors={"nvidia.com/gpu": "h100"},
        node_selector={"cloud.example.com/pool": "fast"},
    )
    env = pod_env(entry(pods), pods, 1, indexed=True, agent="x", cell="main")
    assert env["SLUICE_FLAVOR_NVIDIA_COM_GPU"] == "h100"
    assert env["SLUICE_NODE_LABEL_CLOUD_EXAMPLE_COM_POOL"] == "fast"
    assert (env["SLUICE_JOB"], env["SLUICE_POD"]) == ("team/train", "train-main-1")
    assert env["JOB_COMPLETION_INDEX"] == "1"


def test_own_kind() -> None:
    """Our own Job: every pod of a set must succeed, and has an index."""
    job = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "queueName": "q",
            "backoffLimit": 1,
            "podSets": [
                {"name": "driver", "command": ["drive"]},
                {"name": "worker", "command": ["work"], "args": ["hard"], "replicas": 3, "env": {"A": "b"}},
            ],
        },
    }
    found = plan(job, DispatchPodSet(name="driver", count=1), DispatchPodSet(name="worker", count=3))
    assert found.backoff_limit == 1
    worker = found.pod_sets[1]
    assert (worker.parallelism, worker.completions, worker.indexed) == (3, 3, True)
    assert (list(worker.command), dict(worker.env)) == (["work", "hard"], {"A": "b"})


def test_what_agents_cannot_run() -> None:
    """Each refusal says what is missing."""
    job = manifest()
    del job["spec"]["template"]["spec"]["containers"][0]["command"]
    with pytest.raises(PlanError, match="the container needs a command"):
        plan(job)
    job = manifest()
    job["spec"]["template"]["spec"]["containers"] = []
    with pytest.raises(PlanError, match="no container"):
        plan(job)
    with pytest.raises(PlanError, match="no pod set 'main'"):
        plan(manifest(), DispatchPodSet(name="other", count=1))
    ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "train"}, "spec": {}}
    with pytest.raises(PlanError, match="no RayCluster"):
        plan(ray)


def test_small_things() -> None:
    assert expand("$$ $(A) $(B)", {"A": "1"}) == "$ 1 $(B)"
    assert [describe_exit(code) for code in (3, -9)] == ["exit code 3", "killed by SIGKILL"]
    env = {
        "PATH": "p",
        "LC_ALL": "C",
        "AGENT_NAME": "x",
        "SLUICE_NATS_URL": "u",
        "AWS_SECRET": "s",
        "CUDA_X": "1",
    }
    assert inherited(env) == {"PATH": "p", "LC_ALL": "C"}
    assert inherited(env, ("CUDA_*",)) == {"PATH": "p", "LC_ALL": "C", "CUDA_X": "1"}
    assert not set(inherited(env, ("*",))) & {"AGENT_NAME", "SLUICE_NATS_URL"}


def test_configuration() -> None:
    """Unknown settings are errors; flavors are a list."""
    config = load({"AGENT_NAME": "x", "AGENT_FLAVORS": "spot, fast,"}, "/data")
    assert (config.flavor_names, config.work_dir) == (("spot", "fast"), "/data/agent")
    with pytest.raises(Exception, match="AGENT_FLAVOURS"):
        load({"AGENT_FLAVOURS": "spot"}, "/data")


def test_images_alone_are_left_to_others() -> None:
    """What else an agent cannot do is said as the job's end, so that its owner hears of it."""
    job = manifest()
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert can_run(entry(), raw(job))
    container.pop("command", None)
    container["image"] = "busybox"
    assert not can_run(entry(), raw(job))
    container["command"] = ["true"]
    assert can_run(entry(), raw(job))
    container["envFrom"] = [{"configMapRef": {"name": "a"}}]
    assert can_run(entry(), raw(job))
    assert can_run(entry(), msgspec.Raw(b"{"))


def raw(job: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(job))
