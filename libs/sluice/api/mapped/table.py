"""The kinds that Kueue admits, beside those with structs of their own, and where their pods are.

Names and order of pod sets are those that Kueue's integrations make (`pkg/controller/jobs` of
kubernetes-sigs/kueue, read on main of 2026-08-22; each kind names its file).
"""

from dataclasses import dataclass
from typing import Final

from . import rules
from .rules import Mapping, PodSetRule

TRAINER: Final = "trainer.kubeflow.org/v1alpha1"
SPARK: Final = ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
APP_WRAPPER: Final = ("workload.codeflare.dev/v1beta2", "AppWrapper")
POD: Final = ("v1", "Pod")
POD_GROUP: Final = ("sluice.dev/v1alpha1", "PodGroup")

_GANG: Final = "all pods of a job are admitted together; a priority class is named by its label"
_CLASS: Final = "the label kueue.x-k8s.io/priority-class names the class"
_UP_TO: Final = "the job is admitted with its replicas, and does not grow"
_RESIZE: Final = "a kueue managed job should not use autoscaling"


@dataclass(frozen=True, slots=True)
class MappedKind:
    """A kind with its mapping.

    *source*: the file of Kueue that says the same. *differs*: what is otherwise than with Kueue.
    *no_effect*: field -> why it has none. *refused*: field -> why a job must not set it to true.
    *pods*: in words, for kinds whose pods no path leads to.
    """

    api_version: str
    kind: str
    source: str
    mapping: Mapping
    differs: str = ""
    no_effect: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    pods: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Its apiVersion and kind."""
        return self.api_version, self.kind


def _kubeflow(
    kind: str,
    field: str,
    *roles: str,
    version: str = "kubeflow.org/v1",
    source: str = "",
    no_effect: tuple[tuple[str, str], ...] = (),
) -> MappedKind:
    """Return a kind of Kubeflow's: roles in Kueue's order, absent ones left out."""
    sets = [
        PodSetRule(
            name=role.lower(),
            template=f"spec.{field}.{role}.template",
            count=[f"spec.{field}.{role}.replicas"],
        )
        for role in roles
    ]
    return MappedKind(
        version,
        kind,
        source or f"kubeflow/jobs/{kind.lower()}/{kind.lower()}_controller.go",
        Mapping(pod_sets=sets, suspend=["spec.runPolicy.suspend"], ttl=f"spec.runPolicy.{rules.TTL}"),
        no_effect=(("spec.runPolicy.schedulingPolicy", _GANG), *no_effect),
    )


_LWS: Final = "spec.leaderWorkerTemplate"

_RAY_CLUSTER: Final = "spec.rayClusterConfig"


def _ray(cluster: str) -> list[PodSetRule]:
    return [
        PodSetRule(name="head", template=f"{cluster}.headGroupSpec.template"),
        PodSetRule(
            each=f"{cluster}.workerGroupSpecs",
            name_from="groupName",
            template="template",
            count=["replicas"],
            times=["numOfHosts"],
        ),
    ]


def _replicas(name: str = "main") -> list[PodSetRule]:
    return [PodSetRule(name=name, template="spec.template", count=["spec.replicas"])]


KINDS: Final[tuple[MappedKind, ...]] = (
    _kubeflow(
        "PyTorchJob",
        "pytorchReplicaSpecs",
        "Master",
        "Worker",
        source="kubeflow/jobs/pytorchjob/pytorchjob_controller.go",
        no_effect=(("spec.elasticPolicy", _UP_TO),),
    ),
    _kubeflow("TFJob", "tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs", "Master", "Worker"),
    _kubeflow("PaddleJob", "paddleReplicaSpecs", "Master", "Worker"),
    _kubeflow("JAXJob", "jaxReplicaSpecs", "Worker"),
    _kubeflow(
        "MPIJob",
        "mpiReplicaSpecs",
        "Launcher",
        "Worker",
        version="kubeflow.org/v2beta1",
        source="mpijob/mpijob_controller.go",
    ),
    MappedKind(
        TRAINER,
        "TrainJob",
        "kubeflow/trainjob/trainjob_controller.go",
        Mapping(
            pod_sets=[
                PodSetRule(
                    name="node", resources="spec.trainer.resourcesPerNode", count=["spec.trainer.numNodes"]
                )
            ],
            suspend=["spec.suspend"],
        ),
        differs="training runtimes are not read: the job itself says its resourcesPerNode",
        no_effect=(("spec.initializer", "what its pods need stands in the runtime, and is not counted"),),
    ),
    MappedKind(
        "ray.io/v1",
        "RayService",
        "rayservice/rayservice_controller.go",
        Mapping(pod_sets=_ray(_RAY_CLUSTER), suspend=["spec.suspend", f"{_RAY_CLUSTER}.suspend"]),
        differs="an upgrade without down-time is charged as one cluster",
        refused=((f"{_RAY_CLUSTER}.enableInTreeAutoscaling", _RESIZE),),
    ),
    MappedKind(
        *SPARK,
        "sparkapplication/sparkapplication_resources.go",
        Mapping(suspend=["spec.suspend"]),
        pods="`driver`: 1; `executor`: spec.executor.instances; CPU and memory as Spark computes them",
        refused=(("spec.dynamicAllocation.enabled", _RESIZE),),
    ),
    MappedKind(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "leaderworkerset/leaderworkerset_reconciler.go",
        Mapping(
            pod_sets=[
                PodSetRule(name="leader", template=f"{_LWS}.leaderTemplate", times=["spec.replicas"]),
                PodSetRule(
                    name="worker",
                    template=f"{_LWS}.workerTemplate",
                    count=[f"{_LWS}.size"],
                    fewer=1,
                    times=["spec.replicas"],
                    when=f"{_LWS}.leaderTemplate",
                ),
                PodSetRule(
                    name="main",
                    template=f"{_LWS}.workerTemplate",
                    count=[f"{_LWS}.size"],
                    times=["spec.replicas"],
                    unless=f"{_LWS}.leaderTemplate",
                ),
            ]
        ),
        differs="all groups are one workload, admitted together; with Kueue each replica is one",
    ),
    MappedKind(
        "apps/v1",
        "StatefulSet",
        "statefulset/statefulset_reconciler.go",
        Mapping(pod_sets=_replicas()),
    ),
    MappedKind(
        "apps/v1",
        "Deployment",
        "deployment/deployment_webhook.go",
        Mapping(pod_sets=_replicas()),
        differs="all pods are one workload, admitted together; with Kueue each pod is one",
    ),
    MappedKind(
        *APP_WRAPPER,
        "appwrapper/appwrapper_controller.go",
        Mapping(suspend=["spec.suspend"]),
        pods="`<name>-<number>`: each pod set of the wrapped objects, or those in `podSets` of a component",
    ),
    MappedKind(
        *POD,
        "pod/pod_controller.go",
        Mapping(pod_sets=[PodSetRule(name="main", template=rules.ITSELF)]),
        no_effect=(("spec.priorityClassName", _CLASS),),
    ),
    MappedKind(
        *POD_GROUP,
        "pod/pod_controller.go",
        Mapping(),
        pods="one for each kind of pods in spec.pods; `sluice submit` makes it of the pods of a group",
        differs="pod sets are named `main`, or `role-<number>`; with Kueue by a hash",
    ),
)

MAPPED: Final[dict[tuple[str, str], MappedKind]] = {kind.key: kind for kind in KINDS}
"""(apiVersion, kind) -> what is known of it."""

WRAPPED: Final[dict[tuple[str, str], list[PodSetRule]]] = {
    ("batch/v1", "Job"): [
        PodSetRule(
            name="main",
            template="spec.template",
            count=["spec.parallelism"],
            at_most="spec.completions",
        )
    ],
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): [
        PodSetRule(
            each="spec.replicatedJobs",
            name_from="name",
            template="template.spec.template",
            count=["template.spec.parallelism"],
            at_most="template.spec.completions",
            times=["replicas"],
        )
    ],
    ("ray.io/v1", "RayCluster"): _ray("spec"),
    ("ray.io/v1", "RayJob"): _ray("spec.rayClusterSpec"),
}
"""Kinds with structs of their own, as an AppWrapper's controller infers their pod sets."""
