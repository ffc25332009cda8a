"""Jobs of Kueue's other kinds: admitted by the table, run by the executors that say they run them."""

import asyncio
import re
import threading
from pathlib import Path

import pytest

from sluice.sdk import AsyncClient, Executor, ExecutorSettings, Outcome, Work
from tests.support.command import Sluice
from tests.support.system import System
from tests.support.waiting import PATIENCE_S, wait_until

from .conftest import queue_yaml

pytestmark = pytest.mark.nats

# The queues of these tests have CPUs only.
MEMORY = re.compile(r", memory: \w+|\n +memory: \S+|\n +nvidia.com/gpu: \S+")
TRAINING = MEMORY.sub("", Path("examples/kueue-kinds/training.yaml").read_text()).split("\n---\n")
PYTORCH = TRAINING[0].replace("user-queue", "kinds")


class Torch:
    """An executor in a thread that runs jobs of one kind, PyTorchJobs if nothing else is said."""

    def __init__(self, url: str, kind: str = "PyTorchJob") -> None:
        self.url, self.kind = url, kind
        self.took: list[tuple[str, list[tuple[str, int]]]] = []
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> "Torch":
        self._thread.start()
        assert self._up.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._executor.stop)
        self._thread.join(PATIENCE_S)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        settings = ExecutorSettings(heartbeat_s=0.3, ttl_s=1, kinds=(self.kind,))
        async with AsyncClient(self.url) as client:
            self._executor = Executor(client, "torch", self._run, settings)
            self._up.set()
            await self._executor.serve()

    async def _run(self, work: Work) -> Outcome:
        self.took.append((work.entry.kind, [(pods.name, pods.count) for pods in work.entry.pod_sets]))
        await work.ready()
        return Outcome()


@pytest.fixture(scope="module")
def agent(cell: System) -> None:
    work = {"AGENT_NAME": "one", "AGENT_WORK_DIR": str(cell.directory / "work")}
    cell.start("agent", work)


def kinds(run: Sluice, name: str) -> object:
    found = [
        one
        for one in run("get", "agents", "-o", "json").ok().json["items"]
        if one["metadata"]["name"] == name
    ]
    return found[0]["status"].get("kinds") if found else None


def phase(run: Sluice, name: str) -> str:
    return run("get", "job", name, "-o", "{.status.phase}").ok().out.strip()


def test_who_runs_the_kind_takes_it_and_agents_leave_it_alone(cell: System, run: Sluice, agent: None) -> None:
    """While nobody runs it, it is said so; the agent goes on with the jobs that it can run."""
    assert agent is None
    run("apply", "-f", "-", stdin=queue_yaml("kinds", cpu=8)).ok()
    wait_until(lambda: kinds(run, "one") == ["Job", "JobSet"])
    run("submit", "-f", "-", stdin=PYTORCH).ok()
    wait_until(lambda: "(one) runs a PyTorchJob." in run("why", "pytorch-simple").ok().out)
    run("submit", "-q", "kinds", "--name", "plain", "--wait", "--", "true").ok()
    assert phase(run, "pytorch-simple") == "Admitted"
    assert "(one) runs a PyTorchJob" in run("describe", "job", "pytorch-simple").ok().out

    with Torch(cell.url) as torch:
        wait_until(lambda: phase(run, "pytorch-simple") == "Succeeded")
        assert torch.took == [("PyTorchJob", [("master", 1), ("worker", 2)])]
    described = run("describe", "pytorchjob", "pytorch-simple").ok().out
    assert "Ran on:           torch" in described
    assert "1 x master, 2 x worker" in described


def test_jobs_are_listed_by_their_kind(run: Sluice) -> None:
    """Each kind has its word; a word finds jobs of that kind only."""
    run("apply", "-f", "-", stdin=queue_yaml("listed", cpu=1)).ok()
    manifests = "\n---\n".join(TRAINING[1:]).replace("user-queue", "listed")
    run("submit", "-f", "-", stdin=manifests).ok()
    for kind in ("TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob", "TrainJob"):
        (item,) = run("get", f"{kind.lower()}s", "-o", "json").ok().json["items"]
        assert item["kind"] == kind
    assert "not found" in run("describe", "tfjob", "jax-simple").err
    assert "spec" in run("get", "mpijob", "pi", "-o", "json").ok().json


def test_a_group_of_pods_is_one_job(run: Sluice) -> None:
    run("apply", "-f", "-", stdin=queue_yaml("grouped", cpu=9)).ok()
    serving = Path("examples/kueue-kinds/serving.yaml").read_text().split("\n---\n")
    pods = "\n---\n".join(one for one in serving if "sample-group" in one).replace("user-queue", "grouped")
    run("submit", "-f", "-", stdin=pods).ok()
    (item,) = run("get", "podgroups", "-o", "json").ok().json["items"]
    assert [(p["name"], p["count"]) for p in item["status"]["podSets"]] == [("role-0", 1), ("role-1", 2)]


def test_what_has_no_effect_and_what_is_wrong_is_said_with_its_field(run: Sluice) -> None:
    policy = "  runPolicy:\n    schedulingPolicy: {minAvailable: 3}\n"
    text = PYTORCH.replace("  runPolicy:\n", policy).replace("pytorch-simple", "warned")
    warned = run("submit", "--dry-run", "-f", "-", stdin=text).ok()
    assert "spec.runPolicy.schedulingPolicy has no effect" in warned.err
    refused = run("submit", "-f", "-", stdin=PYTORCH.replace("replicas: 2", "replicas: two"))
    assert "spec.pytorchReplicaSpecs.Worker.replicas: Invalid value" in refused.err
    assert refused.code


TOPOLOGY = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: rack}]}
"""
RACKED = """
apiVersion: batch/v1
kind: Job
metadata: {name: racked, labels: {kueue.x-k8s.io/queue-name: racked}}
spec:
  template:
    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: rack}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, command: [x], resources: {requests: {cpu: 1}}}]
"""


def test_what_has_no_effect_is_said_for_as_long_as_it_is_there(run: Sluice) -> None:
    """When it comes, and whenever somebody looks; of jobs also what their pods say."""
    queues = queue_yaml("racked").replace(
        "spec: {clusterQueue", "spec: {fairSharing: {weight: 2}, clusterQueue"
    )
    said = run("apply", "-f", "-", stdin=queues + "---" + TOPOLOGY).ok().err
    job = run("submit", "-f", "-", stdin=RACKED).ok().err
    for target, text, at_first in (
        ("topology/racks", "spec.levels has no effect", said),
        ("lq/racked", "spec.fairSharing of a LocalQueue has no effect", said),
        ("job/racked", "metadata.annotations[kueue.x-k8s.io/podset-required-topology] has no effect", job),
    ):
        assert text in at_first
        described = run("describe", target).ok().out
        assert text in described.partition("Warnings:")[2]
    assert "Warnings:" not in run("describe", "cq/racked").ok().out


IMAGE = """
apiVersion: batch/v1
kind: Job
metadata: {name: of-an-image, labels: {kueue.x-k8s.io/queue-name: images}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, resources: {requests: {cpu: 1}}}]
"""


def test_an_image_without_a_command_is_left_to_who_runs_images(
    cell: System, run: Sluice, agent: None
) -> None:
    """The agent would have to fail it; another executor of the same flavors runs it."""
    assert agent is None
    run("apply", "-f", "-", stdin=queue_yaml("images", cpu=2)).ok()
    warned = run("submit", "-f", "-", stdin=IMAGE).ok()
    assert "spec.template.spec.containers[0] has an image and no command" in warned.err
    wait_until(lambda: phase(run, "of-an-image") == "Admitted")
    run("submit", "-q", "images", "--name", "beside", "--wait", "--", "true").ok()
    assert phase(run, "of-an-image") == "Admitted"
    with Torch(cell.url, "Job") as other:
        wait_until(lambda: phase(run, "of-an-image") == "Succeeded")
        assert other.took == [("Job", [("main", 1)])]
