"""Ray clusters and Ray jobs that grow and shrink: dispatch says how many pods of each group may run.

Agents run no Ray; the executor here is a program of a user's, as for KubeRay or Slurm.
"""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.sdk import AsyncClient, Executor, ExecutorSettings, Outcome, Work
from tests.support.command import Sluice
from tests.support.system import System
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.nats

FAST = ExecutorSettings(heartbeat_s=0.3, ttl_s=1, takeover_s=2, check_s=1)
CLUSTER = Path("examples/elastic/raycluster.yaml").read_text()


class Ray:
    """An executor in a thread: it takes what it gets, starts and ends pods by the entry, and reports back."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.began: list[tuple[str, int]] = []
        self.work: dict[str, Work] = {}
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._up = threading.Event()

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(PATIENCE_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._executor.stop)
        self._thread.join(30)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncClient(self.url) as client:
            self._executor = Executor(client, "ray", self._run, FAST)
            self._up.set()
            await self._executor.serve()

    async def _run(self, work: Work) -> Outcome:
        name = work.entry.job.partition("/")[2]
        self.began.append((name, work.entry.attempt))
        self.work[name] = work
        resized = asyncio.Event()
        work.on_resize = lambda _: resized.set()
        try:
            while True:
                # Whatever has to be started or ended is, at once.
                await work.ready()
                await resized.wait()
                resized.clear()
        finally:
            del self.work[name]

    def attempts(self, name: str) -> list[int]:
        """Return the attempts of a job that began here, in their order."""
        return [attempt for began, attempt in self.began if began == name]

    def pods(self, name: str) -> dict[str, tuple[int, int]]:
        """Return ungated and gated pods of each set; {} of a job that does not run."""
        work = self.work.get(name)
        return {} if work is None else {p.name: (p.ungated, p.gated) for p in work.entry.pod_sets}


@pytest.fixture(scope="module")
def ray(cell: System) -> Iterator[Ray]:
    found = Ray(cell.url)
    found.start()
    yield found
    found.stop()


def slices(run: Sluice, name: str) -> list[str]:
    found = run("get", "job", name, "-o", "json").ok().json["status"]["slices"]
    return [each["state"] for each in found]


def test_an_autoscaler_changes_worker_groups(run: Sluice, ray: Ray) -> None:
    """Each change of `replicas` is a resize: up by a slice, gated till then; down in place."""
    run("apply", "-f", "examples/elastic/queue.yaml").ok()
    run("submit", "-f", "-", stdin=CLUSTER).ok()
    wait_until(lambda: ray.pods("demo-ray") == {"head": (1, 0), "small": (1, 0), "large": (1, 0)})

    # Six cpus in all: the head one, the groups two and one each.
    run("submit", "-f", "-", stdin=CLUSTER.replace("replicas: 1\n    minReplicas: 1", "replicas: 3\n")).ok()
    wait_until(lambda: ray.pods("demo-ray")["small"] == (3, 0))
    assert slices(run, "demo-ray") == ["Replaced", "Admitted"]

    # More of the large ones than there is quota: they stay gated, whatever the small ones do meanwhile.
    run("job", "scale", "demo-ray", "large=2").ok()
    wait_until(lambda: ray.pods("demo-ray")["large"] == (1, 1))
    run("job", "scale", "demo-ray", "small=2").ok()
    run("job", "scale", "demo-ray", "small=1").ok()
    wait_until(lambda: ray.pods("demo-ray") == {"head": (1, 0), "small": (1, 0), "large": (2, 0)})

    run("job", "scale", "demo-ray", "large=0").ok()
    wait_until(lambda: ray.pods("demo-ray")["large"] == (0, 0))
    assert slices(run, "demo-ray") == ["Replaced", "Replaced", "Admitted"]
    assert ray.attempts("demo-ray") == [1]
    wait_until(lambda: run("get", "job", "demo-ray", "-o", "{.status.phase}").ok().out.strip() == "Running")

    assert "podSets[head]: Forbidden" in run("job", "scale", "demo-ray", "head=2").err
    run("job", "delete", "demo-ray").ok()
    wait_until(lambda: not ray.pods("demo-ray"))
    wait_until(lambda: "demo-ray" not in run("get", "slices", "-o", "name").ok().out)


def test_a_ray_job_grows(run: Sluice, ray: Ray) -> None:
    """The same for a RayJob, whose cluster and submitter are pod sets of one workload."""
    run("apply", "-f", "examples/elastic/queue.yaml").ok()
    spec = CLUSTER.partition("\nspec:\n")[2].replace("\n", "\n    ")
    manifest = f"""
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: ray-train
  labels: {{kueue.x-k8s.io/queue-name: elastic}}
  annotations: {{kueue.x-k8s.io/elastic-job: "true"}}
spec:
  shutdownAfterJobFinishes: true
  entrypoint: python train.py
  submitterPodTemplate:
    spec:
      containers: [{{name: submit, image: ray, resources: {{requests: {{cpu: 1}}}}}}]
  rayClusterSpec:
    {spec}
"""
    run("submit", "-f", "-", stdin=manifest).ok()
    began = {"head": (1, 0), "small": (1, 0), "large": (1, 0), "submitter": (1, 0)}
    wait_until(lambda: ray.pods("ray-train") == began)
    run("job", "scale", "ray-train", "small=2").ok()
    wait_until(lambda: ray.pods("ray-train") == {**began, "small": (2, 0)})
    assert slices(run, "ray-train") == ["Replaced", "Admitted"]
    run("job", "finish", "ray-train").ok()
    wait_until(lambda: not ray.pods("ray-train"))


def test_a_job_set_is_not_elastic(run: Sluice) -> None:
    """WS1 names the kinds that are: another one is refused with the annotation's path."""
    manifest = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: set
  labels: {kueue.x-k8s.io/queue-name: elastic}
  annotations: {kueue.x-k8s.io/elastic-job: "true"}
spec:
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec:
        template:
          spec:
            containers: [{name: c, image: busybox, resources: {requests: {cpu: 1}}}]
"""
    said = run("submit", "-f", "-", stdin=manifest)
    assert said.code
    assert "metadata.annotations[kueue.x-k8s.io/elastic-job]: Forbidden" in said.out + said.err
