"""A cell of two deciders and an executor that read each other's commits late, for storms of resizes.

After every step, what must hold of elastic jobs is checked across both (DB6).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.core.views import View
from sluice.events.base import Event, JobKey
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry

from .memory_log import TICK, Service, World
from .objects import OWN, kueue_object, local_queue, resource_group
from .shown_usage import wrong_usage

ELASTIC = "kueue.x-k8s.io/elastic-job"


@dataclass
class Cell(World):
    ready: dict[JobKey, tuple[str, int, str, int]] = field(default_factory=dict)
    """Job -> its incarnation, attempt, workload and pods when the executor last said that they run."""
    left: dict[tuple[str, int], int] = field(default_factory=dict)
    """Incarnation and attempt of a job with completions -> how many are left to do, if some are done."""
    view: View = field(default_factory=View)
    shown: int = 0
    """What people see, and how many events of the history are in it."""

    def __post_init__(self) -> None:
        self.serve(Scheduler(), SliceAggregator())

    @property
    def scheduler(self) -> Service:
        return self.services["scheduler"]

    @property
    def slices(self) -> Service:
        return self.services["slices"]

    # Inputs

    def append(self, suffix: str, payload: bytes) -> int:
        self.now += TICK
        return super().append(suffix, payload)

    def queue(self, name: str, cpu: int, cohort: str = "", **spec: Any) -> Self:
        """A cluster queue, its flavor `default`, and a local queue of the same name."""
        spec = {"namespaceSelector": {}, "resourceGroups": [resource_group({"default": cpu})], **spec}
        if cohort:
            spec["cohortName"] = cohort
        queue = kueue_object("ClusterQueue", name, spec)
        self.apply(kueue_object("ResourceFlavor", "default"), queue, local_queue(name, name))
        return self

    def submit(
        self,
        name: str,
        queue: str,
        count: int,
        *,
        elastic: bool = True,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Self:
        notes = {ELASTIC: "true"} if elastic else {}
        manifest = {
            "apiVersion": OWN,
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default", "annotations": notes, "labels": labels or {}},
            "spec": {
                "queueName": queue,
                "replicas": count,
                "resources": {"cpu": 1},
                "command": ["true"],
                **spec,
            },
        }
        self.message(name, "JobSubmitted", manifest)
        return self

    def scale(self, job: str, count: int, **fields: Any) -> Self:
        self.message(job, "JobScaled", {"podSets": {"main": count}, **fields})
        return self

    # Reading and deciding

    def check_step(self) -> None:
        self.check()

    def settle(self, seconds: float = 0, *, executor: bool = True, ready: bool = False) -> list[Event]:
        """Let all read everything until nothing follows. *ready*: executors say that pods run, too."""
        found = super().settle(seconds)
        for _ in range(1000):
            before = len(self.log)
            if executor:
                self.obey()
            if ready:
                self.say_ready()
            if len(self.log) == before:
                return found
            found += super().settle()
        raise AssertionError("does not settle")

    def say_ready(self) -> Self:
        """Be the executor: say of each job that its pods run, once for each size and slice it is told of."""
        for key in list(self.slices.state.jobs):
            name = key.partition("/")[2]
            entry = self.dispatch(name)
            if entry is None or entry.state != "Running":
                continue
            pods = sum(pods.count for pods in entry.pod_sets)
            now = (entry.uid, entry.attempt, entry.workload, pods)
            if self.ready.get(key) != now:
                self.ready[key] = now
                self.report(name, "JobPodsReady")
        return self

    def _reserved(self) -> list[Any]:
        """Return the workloads that wait for their checks."""
        workloads = self.scheduler.state.world.workloads.values()
        return [w for w in workloads if w.assignment is not None and w.admitted_at is None]

    def checks_asked(self) -> list[int]:
        """Return for how many pods there is quota of each workload that waits for its checks."""
        return [sum(pods.count for pods in workload.assignment) for workload in self._reserved()]

    def checks_say(self, *, ready: bool) -> bool:
        """Answer for the checks of all workloads that wait for them; return whether there are any."""
        found = self._reserved()
        if found and ready:
            self.tell("checks", *(ChecksReady(cause=0, workload=w.key) for w in found))
        elif found:
            gpu, now = ("gpu",), self.now
            retries = (ChecksRetry(cause=0, workload=w.key, checks=gpu, requeue_at=now) for w in found)
            self.tell("checks", *retries)
        return bool(found)

    def checks_reject(self) -> None:
        """Reject all growth that waits for its checks."""
        growth = [w.key for w in self._reserved() if w.record.replaces]
        if growth:
            self.tell("checks", *(ChecksRejected(cause=0, workload=key, checks=("gpu",)) for key in growth))

    def do(self, job: str, completions: int, more: int) -> Self:
        """Be the executor of a job of one pod set: so many more completions are done, but never all."""
        entry = self.dispatch(job)
        if entry is None or entry.state != "Running":
            return self
        (pods,) = entry.pod_sets
        own = (entry.uid, entry.attempt)
        left = self.left[own] = max(1, self.left.get(own, completions) - more)
        ended = {"main": ended} if (ended := max(0, pods.count - left)) else {}
        done = {"main": completions - left}
        self.report(job, "JobPodsReclaimable", pods=ended, counts={"main": pods.count}, succeeded=done)
        return self

    # What must hold

    def charged(self, job: JobKey) -> int:
        """Return for how many pods the scheduler charges the job."""
        return sum(
            sum(w.usage.values()) // 1000
            for w in self.scheduler.state.world.workloads.values()
            if w.record.job is not None and w.record.job.key == job
        )

    def running(self, job: JobKey) -> int:
        """Return how many pods executors may have running."""
        entry = self.dispatch(job.partition("/")[2])
        if entry is None or entry.state != "Running":
            return 0
        assert all(pods.ungated == pods.count for pods in entry.pod_sets)
        granted = sum(pods.ungated for pods in entry.pod_sets)
        return min(granted, self.left.get((entry.uid, entry.attempt), granted))

    def check(self) -> None:
        live: dict[JobKey, list[str]] = {}
        for key, workload in self.scheduler.state.world.workloads.items():
            assert workload.record.job is not None
            live.setdefault(workload.record.job.key, []).append(key)
        for key, slices in live.items():
            assert len(slices) <= 2, f"{key} has {slices}"
        for key in self.slices.state.jobs:
            running, charged = self.running(key), self.charged(key)
            assert running <= charged, f"{key} runs {running} pods with quota for {charged}"

    def check_settled(self) -> None:
        """What must hold when all have read everything, and the executor has said all that it has to say."""
        for key, job in self.slices.state.jobs.items():
            if job.pending is not None:
                had = {pods.name: pods.count for pods in job.record.pod_sets}
                more = any(pods.count > had[pods.name] for pods in job.pending.pod_sets)
                assert more or not job.reserved, f"{key} has a slice that asks for no more than it has"
            if key in self.ready and self.running(key):
                workload = self.scheduler.state.world.workloads[job.record.key]
                assert job.pods_ready, f"the pods of {key} run, and are not ready"
                assert workload.pods_ready_at is not None, f"{workload.key} would be evicted for its pods"
        for event, seq, at in self.dated()[self.shown :]:
            self.view.apply(event, seq, at)
        self.shown = len(self.history)
        assert not (wrong := wrong_usage(self.view, self.scheduler.state)), wrong
