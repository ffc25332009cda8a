"""The kinds of objects people name: plural, short names, and the columns of their tables."""

import time
from dataclasses import dataclass, field

from . import columns_checks
from .columns import (
    allowed_flavors,
    cohort_age,
    condition,
    dig,
    duration,
    flavor_names,
    flavors,
    inactive_reason,
    is_active,
    is_true,
    job_flavors,
    job_pods,
    job_position,
    job_reason,
    job_status,
    limited,
    name,
    node_labels,
    object_age,
    pending_reason,
    position,
    reserved_in,
    since,
    slice_pods,
    taints,
    text_at,
    usage_text,
    variant_gate,
    variant_parent,
    waited,
    workload_priority,
    workload_status,
)
from .columns_agents import agent_flavors
from .durations import age
from .errors import CliError
from .suggest import did_you_mean
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
    verbs: str = "get,list,watch"

    @property
    def singular(self) -> str:
        return self.kind.lower()


_NAME = Column[Object]("NAME", name)
_AGE = Column[Object]("AGE", object_age)


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
            Column("STATUS", job_status),
            Column("POSITION", job_position),
            Column("PRIORITY", text_at("status", "priority")),
            Column("PODS", job_pods),
            Column("FLAVORS", job_flavors),
            Column("ATTEMPTS", text_at("status", "attempts"), wide=True),
            Column("DURATION", duration),
            _AGE,
            Column("WORKLOAD", text_at("status", "workload"), wide=True),
            Column("REASON", job_reason),
            Column("MESSAGE", text_at("status", "message"), wide=True),
        ),
    ),
    Resource(
        "Variant",
        "variants",
        namespaced=True,
        columns=(
            _NAME,
            Column("PARENT", variant_parent),
            Column("VARIANT", text_at("status", "variant")),
            Column("STATUS", workload_status),
            Column("ACTIVE", lambda obj: "yes" if dig(obj, "spec", "active", default=True) else "no"),
            Column("FLAVORS", allowed_flavors),
            Column("GATE", variant_gate),
            Column("POSITION", position),
            _AGE,
            Column("REASON", pending_reason),
        ),
    ),
    Resource(
        "Slice",
        "slices",
        short=("workloadslice", "workloadslices"),
        namespaced=True,
        columns=(
            _NAME,
            Column("JOB", text_at("status", "slice", "job")),
            Column("STATUS", text_at("status", "slice", "state")),
            Column("PODS", slice_pods),
            Column("REPLACES", text_at("status", "slice", "replaces")),
            Column("RESERVED IN", reserved_in),
            Column("FLAVORS", flavors),
            _AGE,
            Column("LINEAGE", text_at("status", "slice", "name"), wide=True),
            Column("REASON", pending_reason),
            Column("MESSAGE", lambda obj: str(condition(obj, "QuotaReserved").get("message", "")), wide=True),
        ),
    ),
    Resource(
        "Workload",
        "workloads",
        short=("wl",),
        namespaced=True,
        columns=(
            _NAME,
            Column("QUEUE", text_at("spec", "queueName")),
            Column("RESERVED IN", reserved_in),
            Column("STATUS", workload_status),
            Column("POSITION", position),
            Column("PRIORITY", workload_priority),
            Column("ADMITTED", lambda obj: "True" if is_true(obj, "Admitted") else ""),
            Column("FINISHED", lambda obj: "True" if is_true(obj, "Finished") else ""),
            _AGE,
            Column("FLAVORS", flavors, wide=True),
            Column("REASON", pending_reason),
            Column("WAITED", waited, wide=True),
            Column("MESSAGE", lambda obj: str(condition(obj, "QuotaReserved").get("message", "")), wide=True),
        ),
    ),
    Resource(
        "ClusterQueue",
        "clusterqueues",
        short=("cq",),
        verbs="get,list,watch,apply,delete",
        columns=(
            _NAME,
            Column("COHORT", text_at("spec", "cohortName")),
            Column("STRATEGY", text_at("spec", "queueingStrategy"), wide=True),
            Column("ACTIVE", is_active),
            Column("PENDING", text_at("status", "pendingWorkloads", default="0")),
            Column("RESERVING", text_at("status", "reservingWorkloads", default="0"), wide=True),
            Column("ADMITTED", text_at("status", "admittedWorkloads", default="0")),
            Column("USED/NOMINAL", usage_text),
            Column("FLAVORS", flavor_names, wide=True),
            _AGE,
            Column("REASON", inactive_reason),
        ),
    ),
    Resource(
        "LocalQueue",
        "localqueues",
        short=("lq", "queue", "queues"),
        namespaced=True,
        verbs="get,list,watch,apply,delete",
        columns=(
            _NAME,
            Column("CLUSTERQUEUE", text_at("spec", "clusterQueue")),
            Column("ACTIVE", is_active),
            Column("PENDING", text_at("status", "pendingWorkloads", default="0")),
            Column("RESERVING", text_at("status", "reservingWorkloads", default="0"), wide=True),
            Column("ADMITTED", text_at("status", "admittedWorkloads", default="0")),
            _AGE,
            Column("REASON", inactive_reason),
        ),
    ),
    Resource(
        "Cohort",
        "cohorts",
        short=("co",),
        verbs="get,list,watch,apply,delete",
        columns=(
            _NAME,
            Column("PARENT", text_at("spec", "parentName")),
            Column("QUEUES", lambda obj: ",".join(dig(obj, "status", "clusterQueues", default=()))),
            Column("USED/NOMINAL", usage_text, wide=True),
            Column("AGE", cohort_age),
        ),
    ),
    Resource(
        "ResourceFlavor",
        "resourceflavors",
        short=("rf", "flavor", "flavors"),
        verbs="get,list,watch,apply,delete",
        columns=(
            _NAME,
            Column("NODE LABELS", node_labels),
            Column("TAINTS", taints, wide=True),
            _AGE,
        ),
    ),
    Resource(
        "WorkloadPriorityClass",
        "workloadpriorityclasses",
        short=("pc", "wpc", "priorityclass", "priorityclasses"),
        verbs="get,list,watch,apply,delete",
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
        verbs="get,list,watch,apply,delete",
        columns=(
            _NAME,
            Column("CONTROLLER", text_at("spec", "controllerName")),
            Column("ACTIVE", is_active),
            Column("PENDING", text_at("status", "pendingWorkloads", default="0"), right=True),
            Column("OLDEST", lambda obj: since(obj, "oldestPendingSince")),
            _AGE,
            Column("REASON", inactive_reason),
        ),
    ),
    Resource(
        "ProvisioningRequestConfig",
        "provisioningrequestconfigs",
        short=("prc",),
        verbs="get,list,watch,apply,delete",
        columns=(_NAME, *columns_checks.PROVISIONING, _AGE),
    ),
    Resource(
        "WebhookCheckConfig",
        "webhookcheckconfigs",
        group=OWN,
        short=("whc",),
        verbs="get,list,watch,apply,delete",
        columns=(_NAME, *columns_checks.WEBHOOK, _AGE),
    ),
    Resource(
        "Budget",
        "budgets",
        group=OWN,
        short=("bg",),
        verbs="get,list,watch,apply,delete",
        columns=(_NAME, *columns_checks.BUDGET, _AGE),
    ),
    Resource(
        "CustomResourceDefinition",
        "customresourcedefinitions",
        group="apiextensions.k8s.io/v1",
        short=("crd", "crds"),
        verbs="get,list,watch,apply,delete",
        columns=(_NAME, Column("KIND", text_at("spec", "names", "kind")), _AGE),
    ),
    Resource(
        "Namespace",
        "namespaces",
        group="v1",
        short=("ns",),
        verbs="get,list,watch,apply,delete",
        columns=(_NAME, Column("STATUS", text_at("status", "phase", default="Active")), _AGE),
    ),
    Resource(
        "LimitRange",
        "limitranges",
        group="v1",
        short=("limits",),
        namespaced=True,
        verbs="get,list,watch,apply,delete",
        columns=(_NAME, Column("LIMITS", limited), _AGE),
    ),
    Resource(
        "RuntimeClass",
        "runtimeclasses",
        group="node.k8s.io/v1",
        verbs="get,list,watch,apply,delete",
        columns=(_NAME, Column("HANDLER", text_at("handler")), _AGE),
    ),
    Resource(
        "Configuration",
        "configurations",
        group=OWN,
        short=("config",),
        verbs="get,list,watch,apply,delete",
        columns=(_NAME, _AGE),
    ),
    Resource(
        "Agent",
        "agents",
        group=OWN,
        columns=(
            _NAME,
            Column("STATUS", text_at("status", "phase")),
            Column("FLAVORS", agent_flavors),
            Column("JOBS", text_at("status", "jobs", default="")),
            Column("HOST", text_at("status", "host", default=""), wide=True),
            Column("SINCE", lambda obj: age(dig(obj, "status", "since", default=None), time.time())),
            Column("MESSAGE", text_at("status", "message"), wide=True),
        ),
    ),
)

BY_KIND: dict[str, Resource] = {resource.kind: resource for resource in RESOURCES}

NAMES: dict[str, Resource] = {}
for _resource in RESOURCES:
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
