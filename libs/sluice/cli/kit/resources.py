"""The kinds of objects people name: plural, short names, and the columns of their tables."""

import time
from dataclasses import dataclass, field, replace

from sluice.api.scheme import KINDS
from sluice.replay.source.suggest import did_you_mean

from . import columns, columns_checks
from .columns import condition, dig, is_true, text_at
from .durations import age
from .errors import CliError
from .table import Column, Object

KUEUE = "kueue.x-k8s.io/v1beta2"
OWN = "sluice.dev/v1alpha1"


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind: how people call it, and how it is shown."""

    kind: str
    plural: str
    group: str = KUEUE
    short: tuple[str, ...] = ()
    namespaced: bool = False
    columns: tuple[Column[Object], ...] = field(default=(), compare=False)
    verbs: str = "get,list,watch,apply,delete"
    only: str = ""
    """The kind that jobs have, where the word means those of one kind."""

    @property
    def singular(self) -> str:
        return (self.only or self.kind).lower()

    def narrowed(self, fields: str = "") -> str:
        """Return a field selector with what the word says of the objects' kind."""
        return ",".join(part for part in (fields, self.only and f"kind={self.only}") if part)


_NAME = Column[Object]("NAME", columns.name)
_AGE = Column[Object]("AGE", columns.object_age)
_ACTIVE = Column[Object]("ACTIVE", columns.is_active)
_PENDING = Column[Object]("PENDING", text_at("status", "pendingWorkloads", default="0"))
_RESERVING = Column[Object]("RESERVING", text_at("status", "reservingWorkloads", default="0"), wide=True)
_ADMITTED = Column[Object]("ADMITTED", text_at("status", "admittedWorkloads", default="0"))
_INACTIVE_REASON = Column[Object]("REASON", columns.inactive_reason)
_PENDING_REASON = Column[Object]("REASON", columns.pending_reason)
_QUOTA_MESSAGE = Column[Object](
    "MESSAGE", lambda obj: str(condition(obj, "QuotaReserved").get("message", "")), wide=True
)


PLAIN_COLUMNS = (_NAME, _AGE)

RESOURCES: tuple[Resource, ...] = (
    Resource(
        "Job",
        "jobs",
        group=OWN,
        namespaced=True,
        verbs="get,list,watch,submit,delete",
        columns=(
            _NAME,
            Column("QUEUE", text_at("status", "queue")),
            Column("STATUS", columns.job_status),
            Column("POSITION", columns.job_position),
            Column("PRIORITY", text_at("status", "priority")),
            Column("PODS", columns.job_pods),
            Column("FLAVORS", columns.job_flavors),
            Column("ATTEMPTS", text_at("status", "attempts"), wide=True),
            Column("DURATION", columns.duration),
            _AGE,
            Column("WORKLOAD", text_at("status", "workload"), wide=True),
            Column("REASON", columns.job_reason),
            Column("MESSAGE", text_at("status", "message"), wide=True),
        ),
    ),
    Resource(
        "Variant",
        "variants",
        namespaced=True,
        verbs="get,list,watch",
        columns=(
            _NAME,
            Column("PARENT", columns.variant_parent),
            Column("VARIANT", text_at("status", "variant")),
            Column("STATUS", columns.workload_status),
            Column("ACTIVE", lambda obj: "yes" if dig(obj, "spec", "active", default=True) else "no"),
            Column("FLAVORS", columns.allowed_flavors),
            Column("GATE", columns.variant_gate),
            Column("POSITION", columns.position),
            _AGE,
            _PENDING_REASON,
        ),
    ),
    Resource(
        "Slice",
        "slices",
        short=("workloadslice", "workloadslices"),
        namespaced=True,
        verbs="get,list,watch",
        columns=(
            _NAME,
            Column("JOB", text_at("status", "slice", "job")),
            Column("STATUS", text_at("status", "slice", "state")),
            Column("PODS", columns.slice_pods),
            Column("REPLACES", text_at("status", "slice", "replaces")),
            Column("RESERVED IN", columns.reserved_in),
            Column("FLAVORS", columns.flavors),
            _AGE,
            Column("LINEAGE", text_at("status", "slice", "name"), wide=True),
            _PENDING_REASON,
            _QUOTA_MESSAGE,
        ),
    ),
    Resource(
        "Workload",
        "workloads",
        short=("wl",),
        namespaced=True,
        verbs="get,list,watch",
        columns=(
            _NAME,
            Column("QUEUE", text_at("spec", "queueName")),
            Column("RESERVED IN", columns.reserved_in),
            Column("STATUS", columns.workload_status),
            Column("POSITION", columns.position),
            Column("PRIORITY", columns.workload_priority),
            Column("ADMITTED", lambda obj: "True" if is_true(obj, "Admitted") else ""),
            Column("FINISHED", lambda obj: "True" if is_true(obj, "Finished") else ""),
            _AGE,
            Column("FLAVORS", columns.flavors, wide=True),
            _PENDING_REASON,
            Column("WAITED", columns.waited, wide=True),
            _QUOTA_MESSAGE,
        ),
    ),
    Resource(
        "ClusterQueue",
        "clusterqueues",
        short=("cq",),
        columns=(
            _NAME,
            Column("COHORT", text_at("spec", "cohortName")),
            Column("STRATEGY", text_at("spec", "queueingStrategy"), wide=True),
            _ACTIVE,
            _PENDING,
            _RESERVING,
            _ADMITTED,
            Column("USED/NOMINAL", columns.usage_text),
            Column("FLAVORS", columns.flavor_names, wide=True),
            _AGE,
            _INACTIVE_REASON,
        ),
    ),
    Resource(
        "LocalQueue",
        "localqueues",
        short=("lq", "queue", "queues"),
        namespaced=True,
        columns=(
            _NAME,
            Column("CLUSTERQUEUE", text_at("spec", "clusterQueue")),
            _ACTIVE,
            _PENDING,
            _RESERVING,
            _ADMITTED,
            _AGE,
            _INACTIVE_REASON,
        ),
    ),
    Resource(
        "Cohort",
        "cohorts",
        short=("co",),
        columns=(
            _NAME,
            Column("PARENT", text_at("spec", "parentName")),
            Column("QUEUES", lambda obj: ",".join(dig(obj, "status", "clusterQueues", default=()))),
            Column("USED/NOMINAL", columns.usage_text, wide=True),
            Column("AGE", columns.cohort_age),
        ),
    ),
    Resource(
        "ResourceFlavor",
        "resourceflavors",
        short=("rf", "flavor", "flavors"),
        columns=(
            _NAME,
            Column("NODE LABELS", columns.node_labels),
            Column("TAINTS", columns.taints, wide=True),
            _AGE,
        ),
    ),
    Resource(
        "WorkloadPriorityClass",
        "workloadpriorityclasses",
        short=("pc", "wpc", "priorityclass", "priorityclasses"),
        columns=(
            _NAME,
            Column("VALUE", text_at("value", default="0")),
            _AGE,
            Column("DESCRIPTION", text_at("description"), wide=True),
        ),
    ),
    Resource(
        "AdmissionCheck",
        "admissionchecks",
        short=("ac", "check", "checks"),
        columns=(
            _NAME,
            Column("CONTROLLER", text_at("spec", "controllerName")),
            _ACTIVE,
            Column("PENDING", text_at("status", "pendingWorkloads", default="0"), right=True),
            Column("OLDEST", lambda obj: columns.since(obj, "oldestPendingSince")),
            _AGE,
            _INACTIVE_REASON,
        ),
    ),
    Resource(
        "ProvisioningRequestConfig",
        "provisioningrequestconfigs",
        short=("prc",),
        columns=(_NAME, *columns_checks.PROVISIONING, _AGE),
    ),
    Resource(
        "WebhookCheckConfig",
        "webhookcheckconfigs",
        group=OWN,
        short=("whc",),
        columns=(_NAME, *columns_checks.WEBHOOK, _AGE),
    ),
    Resource(
        "Budget",
        "budgets",
        group=OWN,
        short=("bg",),
        columns=(_NAME, *columns_checks.BUDGET, _AGE),
    ),
    Resource(
        "MultiKueueCluster",
        "multikueueclusters",
        short=("mkc",),
        columns=(_NAME, Column("LINK", text_at("spec", "clusterSource", "kubeConfig", "location")), _AGE),
    ),
    Resource("Topology", "topologies", columns=(_NAME, _AGE)),
    Resource("MultiKueueConfig", "multikueueconfigs", short=("mkcfg",), columns=(_NAME, _AGE)),
    Resource("CellLadder", "cellladders", group=OWN, short=("ladder",), columns=(_NAME, _AGE)),
    Resource(
        "CustomResourceDefinition",
        "customresourcedefinitions",
        group="apiextensions.k8s.io/v1",
        short=("crd", "crds"),
        columns=(_NAME, Column("KIND", text_at("spec", "names", "kind")), _AGE),
    ),
    Resource(
        "JobKind",
        "jobkinds",
        group=OWN,
        short=("jk",),
        columns=(
            _NAME,
            Column("KIND", text_at("spec", "names", "kind")),
            Column("VERSIONS", lambda obj: ",".join(dig(obj, "spec", "versions", default=()))),
            _AGE,
        ),
    ),
    Resource(
        "Namespace",
        "namespaces",
        group="v1",
        short=("ns",),
        columns=(_NAME, Column("STATUS", text_at("status", "phase", default="Active")), _AGE),
    ),
    Resource(
        "LimitRange",
        "limitranges",
        group="v1",
        short=("limits",),
        namespaced=True,
        columns=(_NAME, Column("LIMITS", columns.limited), _AGE),
    ),
    Resource(
        "RuntimeClass",
        "runtimeclasses",
        group="node.k8s.io/v1",
        columns=(_NAME, Column("HANDLER", text_at("handler")), _AGE),
    ),
    Resource(
        "Configuration",
        "configurations",
        group=OWN,
        short=("config",),
        columns=(_NAME, _AGE),
    ),
    Resource(
        "Agent",
        "agents",
        group=OWN,
        verbs="get,list,watch",
        columns=(
            _NAME,
            Column("STATUS", text_at("status", "phase")),
            Column("FLAVORS", columns.agent_flavors),
            Column("JOBS", text_at("status", "jobs", default="")),
            Column("KINDS", columns.agent_kinds, wide=True),
            Column("HOST", text_at("status", "host", default=""), wide=True),
            Column("ON LOSS", columns.agent_on_loss),
            Column("SINCE", lambda obj: age(dig(obj, "status", "since", default=None), time.time())),
            Column("MESSAGE", text_at("status", "message"), wide=True),
        ),
    ),
)

BY_KIND: dict[str, Resource] = {resource.kind: resource for resource in RESOURCES}


def jobs_of_kind(kind: str, plural: str, api_version: str, short: tuple[str, ...]) -> Resource:
    """Return the resource for the jobs of one kind."""
    return replace(BY_KIND["Job"], plural=plural, group=api_version, short=short, only=kind)


JOB_RESOURCES: tuple[Resource, ...] = tuple(
    jobs_of_kind(kind.kind, kind.plural, kind.api_version, kind.aliases)
    for kind in KINDS
    if kind.is_job and kind.kind != "Job"
)
"""Jobs of one kind: lists of them have the columns of all jobs."""

NAMES: dict[str, Resource] = {}
for _resource in (*RESOURCES, *JOB_RESOURCES):
    for _alias in (_resource.singular, _resource.plural, *_resource.short):
        NAMES[_alias] = _resource


class UnknownResourceError(CliError):
    """No resource of that name is known, so far."""


def register(resource: Resource) -> None:
    """Make a team's own kind known; what there is keeps its names."""
    BY_KIND.setdefault(resource.kind, resource)
    for alias in (resource.singular, resource.plural, *resource.short):
        NAMES.setdefault(alias, resource)


def resource_named(word: str) -> Resource:
    """Return the resource that people call *word*: kind, plural or short name, group suffix allowed.

    Raises:
        UnknownResourceError: there is none; suggests the nearest.
    """
    bare = word.lower().split(".", 1)[0]
    found = NAMES.get(bare)
    if found is None:
        raise UnknownResourceError(
            f'the server has no resource type "{word}".{did_you_mean(bare, NAMES)}',
            hint="`sluice api-resources` lists them.",
            exit_code=2,
        )
    return found
