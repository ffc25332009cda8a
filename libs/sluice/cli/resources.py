"""The kinds of objects people name: plural, short names, and the columns of their tables."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.api.quantity import QuantityError, format_value, resource_value

from . import columns_checks
from .columns_agents import agent_flavors
from .durations import age, human, precise, seconds_between
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


def dig(obj: Mapping[str, Any], *path: str, default: Any = "") -> Any:
    """Return the value at *path*, *default* when any part is absent or null."""
    here: Any = obj
    for part in path:
        if not isinstance(here, Mapping) or here.get(part) is None:
            return default
        here = here[part]
    return here


def condition(obj: Object, kind: str) -> Mapping[str, Any]:
    """Return the condition of a type, empty when the object has none."""
    for found in dig(obj, "status", "conditions", default=()):
        if found.get("type") == kind:
            return dict(found)
    return {}


def is_true(obj: Object, kind: str) -> bool:
    """Tell whether a condition is True."""
    return condition(obj, kind).get("status") == "True"


def name(obj: Object) -> str:
    return str(dig(obj, "metadata", "name"))


def namespace(obj: Object) -> str:
    return str(dig(obj, "metadata", "namespace"))


def key(obj: Object) -> str:
    """Return `namespace/name`, or the name alone of a cluster-wide object."""
    return f"{namespace(obj)}/{name(obj)}" if namespace(obj) else name(obj)


def object_age(obj: Object) -> str:
    return age(dig(obj, "metadata", "creationTimestamp", default=None), time.time())


def labels_text(obj: Object) -> str:
    pairs = dig(obj, "metadata", "labels", default={})
    return ",".join(f"{k}={v}" for k, v in sorted(pairs.items())) or "<none>"


def _text(*path: str, default: str = "") -> Any:
    return lambda obj: str(dig(obj, *path, default=default))


# Workloads and jobs


def workload_status(obj: Object) -> str:
    """Return where a workload is: Pending, QuotaReserved, Admitted, Running, Evicted, Finished or Failed."""
    if is_true(obj, "Finished"):
        return "Failed" if condition(obj, "Finished").get("reason") == "Failed" else "Finished"
    if is_true(obj, "Evicted"):
        return "Evicted" if is_true(obj, "QuotaReserved") else "Pending"
    if is_true(obj, "Admitted"):
        return "Running" if is_true(obj, "PodsReady") else "Admitted"
    if is_true(obj, "QuotaReserved"):
        return "QuotaReserved"
    return "Inactive" if dig(obj, "spec", "active", default=True) is False else "Pending"


def pending_reason(obj: Object) -> str:
    """Return why a workload has no quota, empty when it has or is finished."""
    if is_true(obj, "Finished") or is_true(obj, "QuotaReserved"):
        return ""
    return str(condition(obj, "QuotaReserved").get("reason", ""))


def position(obj: Object) -> str:
    """Return a pending workload's place among those waiting for its cluster queue, from 1; else empty."""
    if workload_status(obj) not in ("Pending", "Inactive"):
        return ""
    place = dig(obj, "status", "queuePosition", default=None)
    return str(place) if place is not None else ""


def flavors(obj: Object) -> str:
    """Return the flavors a workload was given, in order of first use."""
    found: dict[str, None] = {}
    for pod_set in dig(obj, "status", "admission", "podSetAssignments", default=()):
        found.update(dict.fromkeys(pod_set.get("flavors", {}).values()))
    return ",".join(found)


def variant_parent(obj: Object) -> str:
    """Return the name of the workload whose variant this is, empty for others."""
    owners = dig(obj, "metadata", "ownerReferences", default=())
    return next((str(owner["name"]) for owner in owners if owner.get("kind") == "Workload"), "")


def allowed_flavors(obj: Object) -> str:
    """Return the flavors that the workload may use, empty when it may use all."""
    return ",".join(dig(obj, "spec", "admissionConstraints", "allowedResourceFlavors", default=()))


def variant_gate(obj: Object) -> str:
    """Return whether a variant may preempt: Open, Closed, or Blocked when it needs to and may not."""
    if is_true(obj, "BlockedOnPreemptionGates"):
        return "Blocked"
    gates = dig(obj, "status", "preemptionGates", default=())
    return "Open" if gates and all(gate.get("position") == "Open" for gate in gates) else "Closed"


def _slice_pods(obj: Object) -> str:
    """Return how many pods the slice asks for, and how many of them wait for it: `5 (2 gated)`."""
    pods = sum(dig(obj, "status", "slice", "pods", default={}).values())
    gated = sum(dig(obj, "status", "slice", "gated", default={}).values())
    return f"{pods} ({gated} gated)" if gated else str(pods)


def _reserved_in(obj: Object) -> str:
    return str(dig(obj, "status", "admission", "clusterQueue"))


def _workload_priority(obj: Object) -> str:
    return str(dig(obj, "spec", "priority", default=0))


def _waited(obj: Object) -> str:
    seconds = dig(obj, "status", "waitedSeconds", default=None)
    if seconds is not None:
        return precise(float(seconds))
    if workload_status(obj) == "Pending":
        return object_age(obj)
    return ""


def job_status(obj: Object) -> str:
    return str(dig(obj, "status", "phase", default="Unknown"))


def job_reason(obj: Object) -> str:
    return str(dig(obj, "status", "reason"))


def _job_flavors(obj: Object) -> str:
    return ",".join(dig(obj, "status", "flavors", default=()))


def _job_position(obj: Object) -> str:
    return str(dig(obj, "status", "queuePosition"))


def _job_pods(obj: Object) -> str:
    """Return how many pods the job has; `8/20` when it was given quota for fewer (SC7)."""
    pods, granted = dig(obj, "status", "pods"), dig(obj, "status", "grantedPods")
    return str(pods) if granted in ("", pods) else f"{granted}/{pods}"


def _duration(obj: Object) -> str:
    start = dig(obj, "status", "startTime", default=None)
    if start is None:
        return ""
    end = dig(obj, "status", "completionTime", default=None)
    seconds = seconds_between(start, end) if end else None
    if seconds is None:
        return age(start, time.time())
    return human(seconds) if seconds >= 1 else precise(seconds)


# Queues


def usage_cells(obj: Object) -> list[tuple[str, str, int, int, int]]:
    """Return (flavor, resource, used, borrowed, nominal) of a queue or cohort, in the manifest's order.

    Amounts in milli-units for cpu, whole units for all else.
    """
    used: dict[tuple[str, str], tuple[int, int]] = {}
    for flavor in dig(obj, "status", "flavorsReservation", default=()):
        for resource in flavor.get("resources", ()):
            rname = resource["name"]
            total = amount(rname, resource.get("total", 0))
            used[(flavor["name"], rname)] = (total, amount(rname, resource.get("borrowed", 0)))
    rows = []
    for group in dig(obj, "spec", "resourceGroups", default=()):
        for flavor in group.get("flavors", ()):
            for resource in flavor.get("resources", ()):
                total, borrowed = used.get((flavor["name"], resource["name"]), (0, 0))
                nominal = amount(resource["name"], resource.get("nominalQuota", 0))
                rows.append((flavor["name"], resource["name"], total, borrowed, nominal))
    return rows


def amount(resource: str, quantity: Any) -> int:
    """Return a quantity as an integer, 0 when it cannot be read."""
    try:
        return resource_value(resource, quantity)
    except QuantityError:
        return 0


def _usage(obj: Object) -> str:
    """Return use of nominal per resource over all flavors: `cpu 6/8, memory 2Gi/8Gi`."""
    totals: dict[str, list[int]] = {}
    for _, resource, used, _, nominal in usage_cells(obj):
        entry = totals.setdefault(resource, [0, 0])
        entry[0] += used
        entry[1] += nominal
    return ", ".join(
        f"{resource} {format_value(resource, used)}/{format_value(resource, nominal)}"
        for resource, (used, nominal) in totals.items()
    )


def _active(obj: Object) -> str:
    if dig(obj, "metadata", "deletionTimestamp", default=None):
        return "Terminating"
    found = condition(obj, "Active")
    return str(found.get("status", "")) or "Unknown"


def _since(obj: Object, field_: str) -> str:
    moment = dig(obj, "status", field_, default=None)
    return age(moment, time.time()) if moment else ""


def _inactive_reason(obj: Object) -> str:
    found = condition(obj, "Active")
    return str(found.get("reason", "")) if found.get("status") == "False" else ""


def _node_labels(obj: Object) -> str:
    pairs = dig(obj, "spec", "nodeLabels", default={})
    return ",".join(f"{k}={v}" for k, v in pairs.items()) or "<none>"


def _taints(obj: Object) -> str:
    out = []
    for taint in dig(obj, "spec", "nodeTaints", default=()):
        value = f"={taint['value']}" if taint.get("value") else ""
        out.append(f"{taint.get('key')}{value}:{taint.get('effect', '')}")
    return ",".join(out) or "<none>"


def _cohort_age(obj: Object) -> str:
    """Return the age; one that exists because queues name it has none."""
    return "" if dig(obj, "status", "implicit", default=False) else object_age(obj)


def _flavor_names(obj: Object) -> str:
    groups = dig(obj, "spec", "resourceGroups", default=())
    return ",".join(flavor["name"] for group in groups for flavor in group.get("flavors", ()))


_NAME = Column[Object]("NAME", name)
_AGE = Column[Object]("AGE", object_age)


RESOURCES: tuple[Resource, ...] = (
    Resource(
        "Job",
        "jobs",
        group=OWN,
        namespaced=True,
        verbs="get,list,watch,submit,delete",
        columns=(
            _NAME,
            Column("QUEUE", _text("status", "queue")),
            Column("STATUS", job_status),
            Column("POSITION", _job_position),
            Column("PRIORITY", _text("status", "priority")),
            Column("PODS", _job_pods),
            Column("FLAVORS", _job_flavors),
            Column("ATTEMPTS", _text("status", "attempts"), wide=True),
            Column("DURATION", _duration),
            _AGE,
            Column("WORKLOAD", _text("status", "workload"), wide=True),
            Column("REASON", job_reason),
            Column("MESSAGE", _text("status", "message"), wide=True),
        ),
    ),
    Resource(
        "Variant",
        "variants",
        namespaced=True,
        columns=(
            _NAME,
            Column("PARENT", variant_parent),
            Column("VARIANT", _text("status", "variant")),
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
            Column("JOB", _text("status", "slice", "job")),
            Column("STATUS", _text("status", "slice", "state")),
            Column("PODS", _slice_pods),
            Column("REPLACES", _text("status", "slice", "replaces")),
            Column("RESERVED IN", _reserved_in),
            Column("FLAVORS", flavors),
            _AGE,
            Column("LINEAGE", _text("status", "slice", "name"), wide=True),
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
            Column("QUEUE", _text("spec", "queueName")),
            Column("RESERVED IN", _reserved_in),
            Column("STATUS", workload_status),
            Column("POSITION", position),
            Column("PRIORITY", _workload_priority),
            Column("ADMITTED", lambda obj: "True" if is_true(obj, "Admitted") else ""),
            Column("FINISHED", lambda obj: "True" if is_true(obj, "Finished") else ""),
            _AGE,
            Column("FLAVORS", flavors, wide=True),
            Column("REASON", pending_reason),
            Column("WAITED", _waited, wide=True),
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
            Column("COHORT", _text("spec", "cohortName")),
            Column("STRATEGY", _text("spec", "queueingStrategy"), wide=True),
            Column("ACTIVE", _active),
            Column("PENDING", _text("status", "pendingWorkloads", default="0")),
            Column("RESERVING", _text("status", "reservingWorkloads", default="0"), wide=True),
            Column("ADMITTED", _text("status", "admittedWorkloads", default="0")),
            Column("USED/NOMINAL", _usage),
            Column("FLAVORS", _flavor_names, wide=True),
            _AGE,
            Column("REASON", _inactive_reason),
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
            Column("CLUSTERQUEUE", _text("spec", "clusterQueue")),
            Column("ACTIVE", _active),
            Column("PENDING", _text("status", "pendingWorkloads", default="0")),
            Column("RESERVING", _text("status", "reservingWorkloads", default="0"), wide=True),
            Column("ADMITTED", _text("status", "admittedWorkloads", default="0")),
            _AGE,
            Column("REASON", _inactive_reason),
        ),
    ),
    Resource(
        "Cohort",
        "cohorts",
        short=("co",),
        verbs="get,list,watch,apply,delete",
        columns=(
            _NAME,
            Column("PARENT", _text("spec", "parentName")),
            Column("QUEUES", lambda obj: ",".join(dig(obj, "status", "clusterQueues", default=()))),
            Column("USED/NOMINAL", _usage, wide=True),
            Column("AGE", _cohort_age),
        ),
    ),
    Resource(
        "ResourceFlavor",
        "resourceflavors",
        short=("rf", "flavor", "flavors"),
        verbs="get,list,watch,apply,delete",
        columns=(
            _NAME,
            Column("NODE LABELS", _node_labels),
            Column("TAINTS", _taints, wide=True),
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
            Column("VALUE", _text("value", default="0")),
            _AGE,
            Column("DESCRIPTION", _text("description"), wide=True),
        ),
    ),
    Resource(
        "AdmissionCheck",
        "admissionchecks",
        short=("ac", "check", "checks"),
        verbs="get,list,watch,apply,delete",
        columns=(
            _NAME,
            Column("CONTROLLER", _text("spec", "controllerName")),
            Column("ACTIVE", _active),
            Column("PENDING", _text("status", "pendingWorkloads", default="0"), right=True),
            Column("OLDEST", lambda obj: _since(obj, "oldestPendingSince")),
            _AGE,
            Column("REASON", _inactive_reason),
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
        "Namespace",
        "namespaces",
        group="v1",
        short=("ns",),
        verbs="get,list,watch,apply,delete",
        columns=(_NAME, Column("STATUS", _text("status", "phase", default="Active")), _AGE),
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
            Column("STATUS", _text("status", "phase")),
            Column("FLAVORS", agent_flavors),
            Column("JOBS", _text("status", "jobs", default="")),
            Column("HOST", _text("status", "host", default=""), wide=True),
            Column("SINCE", lambda obj: age(dig(obj, "status", "since", default=None), time.time())),
            Column("MESSAGE", _text("status", "message"), wide=True),
        ),
    ),
)

BY_KIND: dict[str, Resource] = {resource.kind: resource for resource in RESOURCES}

NAMES: dict[str, Resource] = {}
for _resource in RESOURCES:
    for _alias in (_resource.singular, _resource.plural, *_resource.short):
        NAMES[_alias] = _resource


def resource_named(word: str) -> Resource:
    """Return the resource that people call *word*: kind, plural or short name, group suffix allowed.

    Raises:
        CliError: there is none; suggests the nearest.
    """
    bare = word.lower().split(".", 1)[0]
    found = NAMES.get(bare)
    if found is None:
        raise CliError(
            f'the server has no resource type "{word}".{did_you_mean(bare, NAMES)}',
            hint="`sluice api-resources` lists them.",
            exit_code=2,
        )
    return found
