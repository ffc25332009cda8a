"""Scheme of the kinds: (apiVersion, kind) -> struct, and the conversion of older spellings to today's."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from . import batch_v1, check_parameters, convert, core_v1, custom, jobset, kueue, node_v1, ray, sluice_v1
from .errors import FieldError
from .kueue_config import VERSIONS, to_configuration
from .mapped import MAPPED, JobKind, MappedJob, OwnJob
from .meta import Manifest

Object = dict[str, Any]
Prepare = Callable[[Object, list[FieldError]], Object]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of manifest.

    `prepare` turns an accepted spelling into the canonical one before decoding, and adds to its errors what
    cannot be turned; None where there is but one spelling. `plural` is the word of the command line and of
    messages, `aliases` are what else people may call it.
    """

    api_version: str
    kind: str
    type: type[Manifest]
    plural: str
    namespaced: bool = False
    prepare: Prepare | None = None
    aliases: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The API group, '' for Kubernetes' core."""
        return self.api_version.rpartition("/")[0]

    @property
    def is_job(self) -> bool:
        """Whether its objects are submitted, and not applied."""
        return self.type in JOB_TYPES


VIEWS = (
    "agent", "agents", "slice", "slices", "workloadslice", "workloadslices", "variant", "variants",
)  # fmt: skip
"""Words for what can be looked at and is no kind of manifest."""

JOB_TYPES = (batch_v1.Job, ray.RayCluster, ray.RayJob, jobset.JobSet, sluice_v1.Job, MappedJob, OwnJob)

JOB_KINDS: tuple[str, ...] = ("Job", "RayCluster", "RayJob", "JobSet", *(kind for _, kind in MAPPED))
"""What jobs are called, for messages."""

_SHORT = {"Deployment": ("deploy",), "StatefulSet": ("sts",), "LeaderWorkerSet": ("lws",), "Pod": ("po",)}

KINDS: tuple[Kind, ...] = (
    Kind(
        kueue.API_VERSION,
        "ResourceFlavor",
        kueue.ResourceFlavor,
        "resourceflavors",
        aliases=("rf", "flavor", "flavors"),
    ),
    Kind(
        kueue.API_VERSION,
        "ClusterQueue",
        kueue.ClusterQueue,
        "clusterqueues",
        prepare=convert.cluster_queue,
        aliases=("cq",),
    ),
    Kind(kueue.API_VERSION, "Cohort", kueue.Cohort, "cohorts", aliases=("co",)),
    Kind(kueue.API_VERSION, "Topology", kueue.Topology, "topologies"),
    Kind(
        kueue.API_VERSION,
        "LocalQueue",
        kueue.LocalQueue,
        "localqueues",
        namespaced=True,
        aliases=("lq", "queue", "queues"),
    ),
    Kind(
        kueue.API_VERSION,
        "AdmissionCheck",
        kueue.AdmissionCheck,
        "admissionchecks",
        aliases=("ac", "check", "checks"),
    ),
    Kind(
        kueue.API_VERSION,
        "WorkloadPriorityClass",
        kueue.WorkloadPriorityClass,
        "workloadpriorityclasses",
        aliases=("pc", "wpc", "priorityclass", "priorityclasses"),
    ),
    Kind(
        kueue.API_VERSION,
        "ProvisioningRequestConfig",
        kueue.ProvisioningRequestConfig,
        "provisioningrequestconfigs",
        aliases=("prc",),
    ),
    Kind(
        kueue.API_VERSION,
        "MultiKueueCluster",
        kueue.MultiKueueCluster,
        "multikueueclusters",
        aliases=("mkc",),
    ),
    Kind(
        kueue.API_VERSION, "MultiKueueConfig", kueue.MultiKueueConfig, "multikueueconfigs", aliases=("mkcfg",)
    ),
    Kind(kueue.API_VERSION, "Workload", kueue.Workload, "workloads", namespaced=True, aliases=("wl",)),
    Kind("v1", "Namespace", core_v1.Namespace, "namespaces", aliases=("ns",)),
    Kind("v1", "LimitRange", core_v1.LimitRange, "limitranges", namespaced=True, aliases=("limits",)),
    Kind(node_v1.API_VERSION, "RuntimeClass", node_v1.RuntimeClass, "runtimeclasses"),
    Kind(batch_v1.API_VERSION, "Job", batch_v1.Job, "jobs", namespaced=True),
    Kind(ray.API_VERSION, "RayCluster", ray.RayCluster, "rayclusters", namespaced=True),
    Kind(ray.API_VERSION, "RayJob", ray.RayJob, "rayjobs", namespaced=True),
    Kind(jobset.API_VERSION, "JobSet", jobset.JobSet, "jobsets", namespaced=True),
    Kind(sluice_v1.API_VERSION, "Job", sluice_v1.Job, "jobs", namespaced=True),
    *(
        Kind(version, kind, MappedJob, f"{kind.lower()}s", namespaced=True, aliases=_SHORT.get(kind, ()))
        for version, kind in MAPPED
    ),
    Kind(sluice_v1.API_VERSION, "Budget", check_parameters.Budget, "budgets", aliases=("bg",)),
    Kind(
        sluice_v1.API_VERSION,
        "WebhookCheckConfig",
        check_parameters.WebhookCheckConfig,
        "webhookcheckconfigs",
        aliases=("whc",),
    ),
    Kind(
        sluice_v1.API_VERSION, "CellLadder", check_parameters.CellLadder, "cellladders", aliases=("ladder",)
    ),
    Kind(
        custom.API_VERSION,
        "CustomResourceDefinition",
        custom.CustomResourceDefinition,
        "customresourcedefinitions",
        aliases=("crd", "crds"),
    ),
    Kind(sluice_v1.API_VERSION, "JobKind", JobKind, "jobkinds", aliases=("jk",)),
    Kind(sluice_v1.API_VERSION, "Configuration", kueue.Configuration, "configurations", aliases=("config",)),
)


def _older(kind: Kind) -> list[Kind]:
    return [
        Kind(old, kind.kind, kind.type, kind.plural, kind.namespaced, convert.to_v1beta2, kind.aliases)
        for old in convert.OLDER
    ]


def _other_spellings(kind: Kind) -> list[Kind]:
    if kind.type is kueue.Configuration:
        return [replace(kind, api_version=version, prepare=to_configuration) for version in VERSIONS]
    return _older(kind) if kind.api_version == kueue.API_VERSION else []


BY_GVK: dict[tuple[str, str], Kind] = {
    (kind.api_version, kind.kind): kind
    for canonical in KINDS
    for kind in (canonical, *_other_spellings(canonical))
}
"""Every accepted (apiVersion, kind), older spellings included."""

WORDS: frozenset[str] = frozenset(
    [*VIEWS, *(word for kind in KINDS for word in (kind.kind.lower(), kind.plural, *kind.aliases))]
)
"""Every word that people have for a kind of ours: no kind of theirs is called so."""

BY_TYPE: dict[type[Manifest], Kind] = {kind.type: kind for kind in KINDS}


def kind_of(manifest: Manifest) -> Kind:
    """Return what *manifest* is.

    Raises:
        KeyError: it is a part of a manifest and no manifest itself.
    """
    if isinstance(manifest, custom.CustomObject):
        return custom_kind(manifest.api_version, manifest.kind)
    if isinstance(manifest, OwnJob):
        return own_job_kind(manifest.api_version, manifest.kind)
    if isinstance(manifest, MappedJob):
        return BY_GVK[manifest.api_version, manifest.kind]
    return BY_TYPE[type(manifest)]


def custom_kind(api_version: str, kind: str) -> Kind:
    """Return the kind of an object that some team's definition may have registered."""
    return Kind(api_version, kind, custom.CustomObject, f"{kind.lower()}s")


def own_job_kind(api_version: str, kind: str) -> Kind:
    """Return the kind of a job that some team's JobKind describes."""
    return Kind(api_version, kind, OwnJob, f"{kind.lower()}s", namespaced=True)


def configuration_kinds() -> tuple[Kind, ...]:
    """Return the kinds that `apply` writes to the log: all but jobs and workloads."""
    return tuple(kind for kind in KINDS if not kind.is_job and kind.type is not kueue.Workload)
