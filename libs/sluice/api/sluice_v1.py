"""Sluice's own `Job`, for users without Kubernetes: `sluice.dev/v1alpha1`.

    apiVersion: sluice.dev/v1alpha1
    kind: Job
    metadata: {name: train, namespace: team-a}
    spec:
      queueName: team-a
      command: [python, train.py]
      replicas: 4
      resources: {cpu: 2, memory: 4Gi}

Pods that differ are named in `podSets` instead; then the short form's fields stay empty.
"""

from typing import Any

from .core_v1 import NodeSelectorTerm, Toleration
from .kueue import AdmissionConstraints
from .meta import Int32, Manifest, ObjectMeta, Seconds, always
from .quantity import Quantity

API_VERSION = "sluice.dev/v1alpha1"


class PodGroup(Manifest, frozen=True):
    """Pods that are alike: `replicas` processes of `command`, each with `resources` for itself.

    `min_replicas` allows partial admission. `node_affinity` are required terms, any of which must match.
    """

    name: str = "main"
    command: list[str] = []
    args: list[str] = []
    env: dict[str, str] = {}
    working_dir: str = ""
    replicas: Int32 | None = None
    min_replicas: Int32 | None = None
    resources: dict[str, Quantity] = {}
    node_selector: dict[str, str] = {}
    node_affinity: list[NodeSelectorTerm] = []
    tolerations: list[Toleration] = []
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class JobSpec(Manifest, frozen=True):
    """The short form describes one group of pods; `parallelism` is another word for `replicas`.

    `completions` is how many pods must succeed; None means as many as run at once.
    Times are seconds; `termination_grace_period_seconds` lies between TERM and KILL.
    """

    queue_name: str = ""
    priority_class_name: str = ""
    priority: Int32 | None = None
    suspend: bool | None = None
    maximum_execution_time_seconds: Seconds | None = None
    backoff_limit: Int32 | None = None
    completions: Int32 | None = None
    termination_grace_period_seconds: Seconds | None = None
    ttl_seconds_after_finished: Seconds | None = None
    admission_constraints: AdmissionConstraints | None = None
    pod_sets: list[PodGroup] = []

    command: list[str] = []
    args: list[str] = []
    env: dict[str, str] = {}
    working_dir: str = ""
    replicas: Int32 | None = None
    parallelism: Int32 | None = None
    min_replicas: Int32 | None = None
    resources: dict[str, Quantity] = {}
    node_selector: dict[str, str] = {}
    node_affinity: list[NodeSelectorTerm] = []
    tolerations: list[Toleration] = []


class Job(Manifest, frozen=True):
    """Sluice's own job (`sluice.dev/v1alpha1`): processes on machines, without images."""

    api_version: str = always(API_VERSION)
    kind: str = always("Job")
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: dict[str, Any] = {}


def groups(spec: JobSpec) -> list[PodGroup]:
    """Return the groups of pods, the short form as one group named `main`."""
    if spec.pod_sets:
        return spec.pod_sets
    return [
        PodGroup(
            command=spec.command,
            args=spec.args,
            env=spec.env,
            working_dir=spec.working_dir,
            replicas=spec.parallelism if spec.replicas is None else spec.replicas,
            min_replicas=spec.min_replicas,
            resources=spec.resources,
            node_selector=spec.node_selector,
            node_affinity=spec.node_affinity,
            tolerations=spec.tolerations,
        )
    ]
