"""Agents run jobs as real processes."""

import os
from collections.abc import AsyncIterator

import msgspec
import pytest

from sluice.events.codec import decode_message
from sluice.events.job import JobFinished
from sluice.events.slices import JobClaimed, WorkloadPodsReady, WorkloadStopped
from sluice.sdk import JobFailedError
from tests.integration.agent.conftest import Cluster, shell
from tests.integration.jobs.conftest import apply_objects
from tests.support.objects import kueue_object
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.nats


async def test_job_runs_to_its_end(cluster: Cluster) -> None:
    """The command runs with its arguments and variables; its output is kept; the job succeeds."""
    cluster.agent()
    job = shell("hello", 'echo "$GREETING from $0 in $SLUICE_JOB" >&2', backoffLimit=0)
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "NAME", "value": "World"}, {"name": "GREETING", "value": "Hello $(NAME)"}]
    container["args"] = ["argument"]
    await cluster.client.submit(job)
    state = await cluster.client.wait("hello", timeout_s=PATIENCE_S)
    assert state.success is True
    assert cluster.log("hello") == "Hello World from argument in default/hello\n"
    assert len(await cluster.events(WorkloadPodsReady)) == 1
    assert [event.executor for event in await cluster.events(JobClaimed)] == ["x"]


async def test_failure_has_its_exit_code(cluster: Cluster) -> None:
    """A pod that fails is tried again up to the limit, then the job has failed, and says why."""
    cluster.agent()
    await cluster.run("bad", "echo try; exit 3", backoffLimit=2)
    with pytest.raises(JobFailedError, match=r"backoff limit \(pod main-0: exit code 3\)"):
        await cluster.client.wait("bad", timeout_s=PATIENCE_S)
    assert cluster.log("bad") == "try\n" * 3
    reports = [data async for data in finishes(cluster, "bad")]
    assert [(data.success, data.exit_codes) for data in reports] == [(False, {"main-0": 3})]


async def finishes(cluster: Cluster, job: str) -> AsyncIterator[JobFinished]:
    async for entries in cluster.client.log.read(1, [f"job.default.{job}"]):
        for entry in entries:
            event = decode_message(entry.payload)
            assert not isinstance(event, tuple)
            if event.type == "JobFinished":
                yield msgspec.json.decode(event.data, type=JobFinished)


async def test_retried_pod_may_succeed(cluster: Cluster) -> None:
    """Failures below the limit do not fail the job."""
    cluster.agent()
    await cluster.run("flaky", "test -e done || { touch done; exit 1; }", backoffLimit=1)
    assert (await cluster.client.wait("flaky", timeout_s=PATIENCE_S)).success is True


async def test_indexed_completions(cluster: Cluster) -> None:
    """Every index succeeds once, at most `parallelism` at a time."""
    cluster.agent()
    script = (
        "echo $JOB_COMPLETION_INDEX; ls running* 2>/dev/null | wc -l; touch running$JOB_COMPLETION_INDEX; "
    )
    script += "sleep 0.2; rm running$JOB_COMPLETION_INDEX"
    await cluster.run("indexed", script, parallelism=2, completions=5, completionMode="Indexed")
    await cluster.client.wait("indexed", timeout_s=PATIENCE_S)
    said = [cluster.log("indexed", f"main-{index}").split() for index in range(5)]
    assert [words[0] for words in said] == ["0", "1", "2", "3", "4"]
    assert max(int(words[1]) for words in said) <= 1


async def test_work_queue(cluster: Cluster) -> None:
    """Without completions all pods run, and the job ends when they have."""
    cluster.agent()
    await cluster.run("queue", "echo one", parallelism=3)
    await cluster.client.wait("queue", timeout_s=PATIENCE_S)
    assert [cluster.log("queue", f"main-{index}") for index in range(3)] == ["one\n"] * 3


async def test_own_kind_with_several_pod_sets(cluster: Cluster) -> None:
    """Every pod set of our own kind runs its own command."""
    cluster.agent()
    await cluster.client.submit(
        {
            "apiVersion": "sluice.dev/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "own"},
            "spec": {
                "queueName": "main",
                "podSets": [
                    {"name": "driver", "command": ["sh", "-c", "echo driver"], "resources": {"cpu": 1}},
                    {"name": "worker", "command": ["sh", "-c", "echo $SLUICE_POD_INDEX"], "replicas": 2},
                ],
            },
        }
    )
    await cluster.client.wait("own", timeout_s=PATIENCE_S)
    assert cluster.log("own", "driver-0") == "driver\n"
    assert [cluster.log("own", f"worker-{index}") for index in range(2)] == ["0\n", "1\n"]


async def test_commands_that_cannot_run(cluster: Cluster) -> None:
    """No command, and no image that others might run, or an unknown one: the job fails and says why."""
    cluster.agent()
    job = shell("no-command", "")
    container = job["spec"]["template"]["spec"]["containers"][0]
    del container["command"]
    container.pop("image", None)
    await cluster.client.submit(job)
    with pytest.raises(JobFailedError, match="the container needs a command"):
        await cluster.client.wait("no-command", timeout_s=PATIENCE_S)
    job = shell("unknown", "", backoffLimit=0)
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["no-such-program"]
    await cluster.client.submit(job)
    with pytest.raises(JobFailedError, match="exit code 127"):
        await cluster.client.wait("unknown", timeout_s=PATIENCE_S)
    assert "cannot be started: " in cluster.log("unknown")


async def test_deadline(cluster: Cluster) -> None:
    """A job longer active than it may is ended and has failed."""
    cluster.agent()
    await cluster.run("slow", "sleep 60", activeDeadlineSeconds=1)
    with pytest.raises(JobFailedError, match="longer than specified deadline"):
        await cluster.client.wait("slow", timeout_s=PATIENCE_S)
    assert not cluster.pods("slow")


async def test_stop_is_gentle_first(cluster: Cluster) -> None:
    """An evicted job gets TERM, has time to end, is reported stopped, and runs again as attempt 2."""
    cluster.agent()
    script = "trap 'echo saved; exit 0' TERM; echo began; while :; do sleep 0.05; done"
    await cluster.run("gentle", script)
    await eventually(lambda: "began" in cluster.log("gentle"))
    cluster.scheduler.evict("gentle")
    await eventually(lambda: "began" in cluster.log("gentle", attempt=2))
    assert "saved" in cluster.log("gentle", attempt=1)
    stops = await cluster.events(WorkloadStopped)
    assert [event.reason for event in stops] == [""]


async def test_stop_is_firm_after_the_grace_period(cluster: Cluster) -> None:
    """What ignores TERM is killed with all its children, also one that left its session."""
    cluster.agent(grace_s="0.5")
    script = "trap '' TERM; setsid sleep 300 & sleep 301 & echo began; while :; do sleep 0.05; done"
    await cluster.run("stubborn", script)
    await eventually(lambda: "began" in cluster.log("stubborn"))
    assert len(cluster.pods("stubborn")) >= 3
    cluster.scheduler.evict("stubborn", hold=True)
    await eventually(lambda: not cluster.pods("stubborn"))
    await eventually(lambda: cluster.events(WorkloadStopped))


async def test_deleted_job_is_stopped(cluster: Cluster) -> None:
    cluster.agent()
    await cluster.run("gone", "echo began; sleep 300")
    await eventually(lambda: "began" in cluster.log("gone"))
    await cluster.client.delete("gone")
    await eventually(lambda: not cluster.pods("gone"))


async def test_node_labels_of_the_flavor(cluster: Cluster) -> None:
    """Pods can see which flavor they got, and its node labels."""
    await apply_objects(
        cluster.client,
        kueue_object("ResourceFlavor", "spot", {"nodeLabels": {"cloud.example.com/pool": "spot-pool"}}),
    )
    cluster.scheduler.decider.flavor = "spot"
    cluster.agent()
    await cluster.run("labels", "echo $SLUICE_FLAVOR_CPU $SLUICE_NODE_LABEL_CLOUD_EXAMPLE_COM_POOL")
    await cluster.client.wait("labels", timeout_s=PATIENCE_S)
    assert cluster.log("labels") == "spot spot-pool\n"


async def test_agent_keeps_its_secrets(cluster: Cluster) -> None:
    """Pods inherit the machine's environment, but not the agent's own settings."""
    cluster.agent()
    await cluster.run("env", "env")
    await cluster.client.wait("env", timeout_s=PATIENCE_S)
    variables = dict(line.split("=", 1) for line in cluster.log("env").splitlines() if "=" in line)
    assert variables["PATH"] == os.environ["PATH"]
    assert not [name for name in variables if name.startswith(("AGENT_", "NATS_"))]
    assert "SLUICE_NATS_URL" not in variables
