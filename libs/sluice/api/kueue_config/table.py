"""Every field of Kueue's own Configuration, and what becomes of it here: its one home.

Reading goes by it, and so does the table in docs/from-kueue.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

GROUP: Final = "config.kueue.x-k8s.io"
OLD, NEW = f"{GROUP}/v1beta1", f"{GROUP}/v1beta2"
VERSIONS: Final = (OLD, NEW)


class How(Enum):
    """What becomes of a field that somebody wrote; the value is the word for it in docs."""

    WORKS = "works"
    DIFFERS = "differs"
    IGNORED = "ignored with a warning"
    REFUSED = "refused"
    NOT_YET = "not yet, with a warning"


class Shape(Enum):
    """What a field may hold; ANY is not looked into."""

    BOOL = "a boolean"
    INT = "an integer"
    NUMBER = "a number"
    TEXT = "a string"
    DURATION = "a duration such as 5m or 1h30m"
    TEXTS = "a list of strings"
    GATES = "a mapping of names to booleans"
    LIST = "a list"
    MAPPING = "a mapping"


@dataclass(frozen=True, slots=True)
class Field:
    """A field that means something by itself, by its *path*.

    *to*: where its value goes in `spec` of Sluice's Configuration. *said*: how it differs, why it has no
    effect, or what to do instead. *versions*: those of the API that have it. *silent*: values that ask for
    what is so here anyway.
    """

    path: str
    shape: Shape
    how: How
    said: str = ""
    to: str = ""
    versions: tuple[str, ...] = VERSIONS
    silent: tuple[Any, ...] = ()


def _of(base: str, names: str, shape: Shape, how: How, said: str = "") -> Iterator[Field]:
    prefix = f"{base}." if base else ""
    yield from (Field(f"{prefix}{name}", shape, how, said) for name in names.split())


_NO_MANAGER: Final = (
    "there is no controller manager; services are set by environment variables (docs/configuration.md)"
)
_NO_WEBHOOK: Final = "there are no webhooks, and no certificates for them"
_NO_CLUSTERS: Final = "jobs are placed in cells by a CellLadder (docs/cells.md)"
_USAGE: Final = "usage over time is not counted: queues are ordered by priority and time"
_INSTEAD_EXCLUDE: Final = (
    "a resource cannot be left out by its name; with `quotaCheckStrategy: IgnoreUndeclared` requests do not "
    "count that the queue has no quota for"
)
_INSTEAD_TRANSFORM: Final = "let whoever submits jobs ask for the resources that queues have quota for"

_WAIT: Final = "waitForPodsReady"
_REQUEUE: Final = f"{_WAIT}.requeuingStrategy"

FIELDS: Final[tuple[Field, ...]] = (
    Field(f"{_WAIT}.enable", Shape.BOOL, How.WORKS, to=f"{_WAIT}.enable", versions=(OLD,)),
    Field(
        f"{_WAIT}.timeout",
        Shape.DURATION,
        How.WORKS,
        "whole seconds; left out: 5 minutes with v1beta1, 30 with v1beta2",
        f"{_WAIT}.timeoutSeconds",
    ),
    Field(
        f"{_WAIT}.recoveryTimeout",
        Shape.DURATION,
        How.WORKS,
        "0s: none; left out: none with v1beta1, the timeout with v1beta2",
        f"{_WAIT}.recoveryTimeoutSeconds",
    ),
    Field(
        f"{_WAIT}.blockAdmission",
        Shape.BOOL,
        How.DIFFERS,
        "holds back one tree of cohorts for another, too; left out: true with v1beta1, false with v1beta2",
        f"{_WAIT}.blockAdmission",
    ),
    Field(
        f"{_WAIT}.maxTimeoutOnWorkload", Shape.DURATION, How.IGNORED, "workloads have no timeout of their own"
    ),
    Field(f"{_WAIT}.unscheduledTimeout", Shape.DURATION, How.IGNORED, "pods are not scheduled here"),
    Field(f"{_REQUEUE}.timestamp", Shape.TEXT, How.WORKS, to=f"{_REQUEUE}.timestamp"),
    Field(f"{_REQUEUE}.backoffLimitCount", Shape.INT, How.WORKS, to=f"{_REQUEUE}.backoffLimitCount"),
    Field(
        f"{_REQUEUE}.backoffBaseSeconds",
        Shape.INT,
        How.DIFFERS,
        "without jitter, so that a replay waits as long",
        f"{_REQUEUE}.backoffBaseSeconds",
    ),
    Field(f"{_REQUEUE}.backoffMaxSeconds", Shape.INT, How.WORKS, to=f"{_REQUEUE}.backoffMaxSeconds"),
    Field("fairSharing.enable", Shape.BOOL, How.WORKS, to="fairSharing.enable", versions=(OLD,)),
    Field("fairSharing.preemptionStrategies", Shape.TEXTS, How.WORKS, to="fairSharing.preemptionStrategies"),
    *(
        Field(f"admissionFairSharing.{name}", shape, How.NOT_YET, _USAGE)
        for name, shape in (
            ("usageHalfLifeTime", Shape.DURATION),
            ("usageSamplingInterval", Shape.DURATION),
            ("resourceWeights", Shape.MAPPING),
        )
    ),
    Field(
        "featureGates",
        Shape.GATES,
        How.DIFFERS,
        "defaults are those of docs/configuration.md; a gate of Kueue's that has no effect here gets a "
        "warning, an unknown one is refused; DisableWaitForPodsReady takes waitForPodsReady back",
        "featureGates",
    ),
    Field("resources.quotaCheckStrategy", Shape.TEXT, How.WORKS, to="quotaCheckStrategy", versions=(NEW,)),
    Field("resources.excludeResourcePrefixes", Shape.TEXTS, How.REFUSED, _INSTEAD_EXCLUDE),
    Field("resources.transformations", Shape.LIST, How.REFUSED, _INSTEAD_TRANSFORM),
    Field(
        "resources.deviceClassMappings",
        Shape.LIST,
        How.REFUSED,
        "claims for devices are not counted: let jobs ask for an extended resource",
    ),
    Field(
        "objectRetentionPolicies.workloads.afterFinished",
        Shape.DURATION,
        How.DIFFERS,
        "the job goes with its workload; at most retainFinishedJobsCount are kept",
        "retainFinishedJobsSeconds",
    ),
    Field(
        "objectRetentionPolicies.workloads.afterDeactivatedByKueue",
        Shape.DURATION,
        How.IGNORED,
        "a job that was deactivated stays until it is deleted",
    ),
    Field(
        "manageJobsWithoutQueueName",
        Shape.BOOL,
        How.IGNORED,
        "a job that names no queue is refused when it is submitted",
    ),
    Field(
        "managedJobsNamespaceSelector",
        Shape.MAPPING,
        How.IGNORED,
        "what is submitted is managed, whatever its namespace; namespaceSelector of a ClusterQueue says who "
        "may use it",
    ),
    Field(
        "integrations.frameworks",
        Shape.TEXTS,
        How.DIFFERS,
        "jobs of all kinds are taken, also those that are not listed; an unknown name is refused",
    ),
    Field(
        "integrations.externalFrameworks",
        Shape.TEXTS,
        How.IGNORED,
        "apply a JobKind that describes such jobs (docs/own-kinds.md)",
    ),
    Field("integrations.labelKeysToCopy", Shape.TEXTS, How.IGNORED, "labels stay with the job"),
    *(
        Field(f"integrations.podOptions.{name}", Shape.MAPPING, How.IGNORED, said, versions=(OLD,))
        for name in ("namespaceSelector", "podSelector")
        for said in ("pods are managed when they are submitted",)
    ),
    Field(
        "queueVisibility.clusterQueues.maxCount",
        Shape.INT,
        How.IGNORED,
        "it is kept, and nothing reads it: `sluice get workloads` lists all that wait",
        "queueVisibilityMaxCount",
        versions=(OLD,),
    ),
    Field(
        "queueVisibility.updateIntervalSeconds",
        Shape.INT,
        How.IGNORED,
        "what waits is told at once",
        versions=(OLD,),
    ),
    *_of("multiKueue", "gcInterval workerLostTimeout", Shape.DURATION, How.IGNORED, _NO_CLUSTERS),
    *_of("multiKueue", "origin dispatcherName", Shape.TEXT, How.IGNORED, _NO_CLUSTERS),
    Field("multiKueue.incrementalDispatcherConfig.stepSize", Shape.INT, How.IGNORED, _NO_CLUSTERS),
    Field("multiKueue.externalFrameworks", Shape.LIST, How.IGNORED, _NO_CLUSTERS),
    Field("multiKueue.clusterProfile.credentialsProviders", Shape.LIST, How.IGNORED, _NO_CLUSTERS),
    Field(
        "metrics.enableClusterQueueResources",
        Shape.BOOL,
        How.IGNORED,
        "quotas are always among the metrics (docs/metrics.md)",
        silent=(True,),
    ),
    Field(
        "metrics.bindAddress",
        Shape.TEXT,
        How.IGNORED,
        "API_HTTP says where metrics are served (docs/metrics.md)",
    ),
    Field("metrics.customLabels", Shape.LIST, How.IGNORED, "metrics have the labels of docs/metrics.md"),
    Field(
        "metrics.localQueueMetrics", Shape.MAPPING, How.IGNORED, "metrics have the labels of docs/metrics.md"
    ),
    *_of("health", "healthProbeBindAddress", Shape.TEXT, How.IGNORED, _NO_MANAGER),
    *_of("health", "readinessEndpointName livenessEndpointName", Shape.TEXT, How.IGNORED, _NO_MANAGER),
    *_of("leaderElection", "leaderElect", Shape.BOOL, How.IGNORED, _NO_MANAGER),
    *_of(
        "leaderElection", "leaseDuration renewDeadline retryPeriod", Shape.DURATION, How.IGNORED, _NO_MANAGER
    ),
    *_of(
        "leaderElection", "resourceLock resourceName resourceNamespace", Shape.TEXT, How.IGNORED, _NO_MANAGER
    ),
    Field("controller.groupKindConcurrency", Shape.MAPPING, How.IGNORED, _NO_MANAGER),
    Field("controller.cacheSyncTimeout", Shape.INT, How.IGNORED, _NO_MANAGER),
    *_of("clientConnection", "qps", Shape.NUMBER, How.IGNORED, _NO_MANAGER),
    *_of("clientConnection", "burst", Shape.INT, How.IGNORED, _NO_MANAGER),
    *_of("", "pprofBindAddress namespace", Shape.TEXT, How.IGNORED, _NO_MANAGER),
    *_of("visibilityServer", "bindPort", Shape.INT, How.IGNORED, _NO_MANAGER),
    *_of("visibilityServer", "bindAddress", Shape.TEXT, How.IGNORED, _NO_MANAGER),
    *_of("webhook", "port", Shape.INT, How.IGNORED, _NO_WEBHOOK),
    *_of("webhook", "host certDir", Shape.TEXT, How.IGNORED, _NO_WEBHOOK),
    *_of("internalCertManagement", "enable", Shape.BOOL, How.IGNORED, _NO_WEBHOOK),
    *_of(
        "internalCertManagement", "webhookServiceName webhookSecretName", Shape.TEXT, How.IGNORED, _NO_WEBHOOK
    ),
    Field("tls.minVersion", Shape.TEXT, How.IGNORED, "TLS is the NATS server's (docs/deploy.md)"),
    Field("tls.cipherSuites", Shape.TEXTS, How.IGNORED, "TLS is the NATS server's (docs/deploy.md)"),
)
"""Kueue's fields of 0.20 and of those before it."""

FRAMEWORKS: Final = (
    "batch/job",
    "deployment",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "pod",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "ray.io/rayservice",
    "sparkoperator.k8s.io/sparkapplication",
    "statefulset",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
)
"""Kueue's names of what it is integrated with; Sluice takes jobs of all of them."""
