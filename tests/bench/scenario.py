"""The workloads of the public Kueue scalability runs, as data: who submits what, when, for how long."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from tests.support.objects import API_VERSION, kueue_object, local_queue, priority_class, resource_group


@dataclass(frozen=True)
class JobClass:
    name: str
    count: int
    """Jobs per queue."""
    cpu: int
    priority: int
    every_ms: int
    """Time between two submissions to one queue."""
    runs_ms: int


@dataclass(frozen=True)
class Scenario:
    name: str
    cohorts: int
    queues_per_cohort: int
    classes: tuple[JobClass, ...]
    ideal_s: float
    """Makespan of a scheduler with zero latency, the preemptions that the configuration implies included."""
    nominal_cpu: int = 20
    borrowing_cpu: int = 100
    flavors: tuple[str, ...] = ("default",)
    """They share `nominal_cpu`; each lends and borrows for itself."""
    policy: str = ""
    """Migration mode of the queues' concurrentAdmissionPolicy; none if empty."""

    @property
    def jobs(self) -> int:
        return self.cohorts * self.queues_per_cohort * sum(c.count for c in self.classes)

    def queues(self) -> Iterator[tuple[str, str]]:
        """Yield (cohort, cluster queue)."""
        for cohort in range(self.cohorts):
            for queue in range(self.queues_per_cohort):
                yield f"cohort-{cohort}", f"cq-{cohort}-{queue}"


BASELINE = Scenario(
    name="baseline",
    cohorts=5,
    queues_per_cohort=6,
    classes=(
        JobClass("small", 350, 1, 50, 100, 200),
        JobClass("medium", 100, 5, 100, 500, 500),
        JobClass("large", 50, 20, 200, 1200, 1000),
    ),
    ideal_s=77.0,
)

LARGE_SCALE = Scenario(
    name="large-scale",
    cohorts=10,
    queues_per_cohort=100,
    classes=(
        JobClass("small", 35, 1, 50, 60, 150),
        JobClass("medium", 11, 5, 100, 300, 350),
        JobClass("large", 4, 20, 200, 700, 700),
    ),
    ideal_s=4.7,
)

SMOKE = Scenario(
    name="smoke",
    cohorts=2,
    queues_per_cohort=2,
    classes=(JobClass("small", 20, 1, 50, 20, 50), JobClass("large", 5, 20, 200, 100, 100)),
    ideal_s=1.0,
)


def manifests(scenario: Scenario) -> list[dict[str, object]]:
    """Return every configuration object that the scenario needs, in the order to apply them."""
    objects: list[dict[str, object]] = [
        {"apiVersion": API_VERSION, "kind": "ResourceFlavor", "metadata": {"name": name}}
        for name in scenario.flavors
    ]
    objects += [priority_class(c.name, c.priority) for c in scenario.classes]
    for cohort, queue in scenario.queues():
        spec: dict[str, object] = {
            "cohortName": cohort,
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [_quotas(scenario)],
        }
        if scenario.policy:
            spec["concurrentAdmissionPolicy"] = {"migration": {"mode": scenario.policy}}
        objects.append(kueue_object("ClusterQueue", queue, spec))
        objects.append(local_queue(queue, queue))
    return objects


def _quotas(scenario: Scenario) -> dict[str, object]:
    share, rest = divmod(scenario.nominal_cpu, len(scenario.flavors))
    shares = {name: share + (number < rest) for number, name in enumerate(scenario.flavors)}
    return resource_group(shares, borrowingLimit=scenario.borrowing_cpu)


@dataclass(slots=True)
class PlannedJob:
    at_s: float
    """Seconds after the start at which it is submitted."""
    name: str
    queue: str
    job_class: JobClass


def plan(scenario: Scenario) -> list[PlannedJob]:
    """Return all jobs of the scenario by time of submission."""
    jobs = [
        PlannedJob(c.every_ms * i / 1000, f"{queue}-{c.name}-{i}", queue, c)
        for _, queue in scenario.queues()
        for c in scenario.classes
        for i in range(c.count)
    ]
    jobs.sort(key=lambda job: (job.at_s, job.name))
    return jobs


def job_manifest(job: PlannedJob) -> msgspec.Raw:
    """Return the batch/v1 Job, as a Kubernetes user would write it."""
    return msgspec.Raw(
        msgspec.json.encode(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    "name": job.name,
                    "namespace": "default",
                    "labels": {
                        "kueue.x-k8s.io/queue-name": job.queue,
                        "kueue.x-k8s.io/priority-class": job.job_class.name,
                    },
                },
                "spec": {
                    "parallelism": 1,
                    "completions": 1,
                    "template": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [
                                {
                                    "name": "main",
                                    "command": ["sleep", str(job.job_class.runs_ms / 1000)],
                                    "resources": {"requests": {"cpu": str(job.job_class.cpu)}},
                                }
                            ],
                        }
                    },
                },
            }
        )
    )
