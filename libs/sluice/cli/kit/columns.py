"""Cells of tables and descriptions, from objects as the API has them: one function per cell."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from sluice.api.quantity import QuantityError, format_value, resource_value

from .durations import age, human, precise, seconds_between
from .table import Object


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


def text_at(*path: str, default: str = "") -> Any:
    return lambda obj: str(dig(obj, *path, default=default))


# Workloads and jobs


def workload_status(obj: Object) -> str:
    """Return where a workload is, or a variant as its parent lists it: a word of `WorkloadPhase`."""
    return str(dig(obj, "status", "phase", default="Unknown"))


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


def slice_pods(obj: Object) -> str:
    """Return how many pods the slice asks for, and how many of them wait for it: `5 (2 gated)`."""
    pods = sum(dig(obj, "status", "slice", "pods", default={}).values())
    gated = sum(dig(obj, "status", "slice", "gated", default={}).values())
    return f"{pods} ({gated} gated)" if gated else str(pods)


def reserved_in(obj: Object) -> str:
    return str(dig(obj, "status", "admission", "clusterQueue"))


def workload_priority(obj: Object) -> str:
    return str(dig(obj, "spec", "priority", default=0))


def waited(obj: Object) -> str:
    """Return how long a workload has waited: the time that it was not admitted, in all of its attempts."""
    seconds = dig(obj, "status", "waitedSeconds", default=None)
    if seconds is not None:
        return precise(float(seconds))
    return waiting(obj) if workload_status(obj) == "Pending" else ""


def waiting(obj: Object) -> str:
    """Return how long a workload that is not admitted has waited by now, what it ran before left out."""
    ran_s = float(dig(obj, "status", "ranSeconds", default=0))
    return age(dig(obj, "metadata", "creationTimestamp", default=None), time.time() - ran_s)


def job_status(obj: Object) -> str:
    return str(dig(obj, "status", "phase", default="Unknown"))


def job_reason(obj: Object) -> str:
    """Return why the job is in its phase; of one that runs, and so marked, why it has not grown yet (WS3)."""
    reason = str(dig(obj, "status", "reason"))
    grows = job_status(obj) in ("Admitted", "Running") and dig(obj, "status", "wantedPods", default=None)
    return f"growth: {reason}" if reason and grows else reason


def job_flavors(obj: Object) -> str:
    return ",".join(dig(obj, "status", "flavors", default=()))


def job_position(obj: Object) -> str:
    return str(dig(obj, "status", "queuePosition"))


def job_pods(obj: Object) -> str:
    """Return how many pods the job has; `8/20` when it has quota for fewer, or waits to grow (SC7, WS3)."""
    pods, granted = dig(obj, "status", "pods"), dig(obj, "status", "grantedPods")
    pods = dig(obj, "status", "wantedPods", default=pods)
    return str(pods) if granted in ("", pods) else f"{granted}/{pods}"


def duration(obj: Object) -> str:
    start = dig(obj, "status", "startTime", default=None)
    if start is None:
        return ""
    end = dig(obj, "status", "completionTime", default=None)
    seconds = seconds_between(start, end) if end else None
    if seconds is None:
        return age(start, time.time())
    return human(seconds) if seconds >= 1 else precise(seconds)


# Queues


class Usage(NamedTuple):
    """Use of one flavor and resource; amounts in milli-units for cpu, whole units for all else."""

    flavor: str
    resource: str
    used: int
    borrowed: int
    nominal: int
    promised: int = 0
    """Reserved on top of that, of quota that others use until they are preempted (AC6)."""

    @property
    def share(self) -> str:
        """Return use of nominal quota as text: `6/8`, `2/2 (+2 promised)`."""
        return _share(self.resource, self.used, self.nominal, self.promised)


def _share(resource: str, used: int, nominal: int, promised: int) -> str:
    more = f" (+{format_value(resource, promised)} promised)" if promised else ""
    return f"{format_value(resource, used)}/{format_value(resource, nominal)}{more}"


def reservations(obj: Object) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return (flavor, resource) -> what of a queue or cohort is used, borrowed, and promised beside that."""
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    for flavor in dig(obj, "status", "flavorsReservation", default=()):
        for resource in flavor.get("resources", ()):
            rname = resource["name"]
            total, borrowed, promised = (
                amount(rname, resource.get(field, 0)) for field in ("total", "borrowed", "promised")
            )
            found[(flavor["name"], rname)] = (total - promised, borrowed, promised)
    return found


def usage_cells(obj: Object) -> list[Usage]:
    """Return the use of a queue's or cohort's own quota, in the manifest's order.

    At the end stands what is still used of flavors that were taken out of it.
    """
    used = reservations(obj)
    rows = []
    for group in dig(obj, "spec", "resourceGroups", default=()):
        for flavor in group.get("flavors", ()):
            for resource in flavor.get("resources", ()):
                total, borrowed, promised = used.get((flavor["name"], resource["name"]), (0, 0, 0))
                nominal = amount(resource["name"], resource.get("nominalQuota", 0))
                rows.append(Usage(flavor["name"], resource["name"], total, borrowed, nominal, promised))
    shown = {(row.flavor, row.resource) for row in rows}
    for fr, (total, borrowed, promised) in used.items():
        if fr not in shown and (total or promised):
            rows.append(Usage(*fr, total, borrowed, 0, promised))
    return rows


def amount(resource: str, quantity: Any) -> int:
    """Return a quantity as an integer, 0 when it cannot be read."""
    try:
        return resource_value(resource, quantity)
    except QuantityError:
        return 0


def usage_text(obj: Object) -> str:
    """Return use of nominal per resource over all flavors: `cpu 6/8, memory 2Gi/8Gi`."""
    totals: dict[str, list[int]] = {}
    for cell in usage_cells(obj):
        entry = totals.setdefault(cell.resource, [0, 0, 0])
        entry[0] += cell.used
        entry[1] += cell.nominal
        entry[2] += cell.promised
    return ", ".join(f"{resource} {_share(resource, *amounts)}" for resource, amounts in totals.items())


def is_active(obj: Object) -> str:
    if dig(obj, "metadata", "deletionTimestamp", default=None):
        return "Terminating"
    found = condition(obj, "Active")
    return str(found.get("status", "")) or "Unknown"


def since(obj: Object, field_: str) -> str:
    moment = dig(obj, "status", field_, default=None)
    return age(moment, time.time()) if moment else ""


def inactive_reason(obj: Object) -> str:
    found = condition(obj, "Active")
    return str(found.get("reason", "")) if found.get("status") == "False" else ""


def node_labels(obj: Object) -> str:
    pairs = dig(obj, "spec", "nodeLabels", default={})
    return ",".join(f"{k}={v}" for k, v in pairs.items()) or "<none>"


def limited(obj: Object) -> str:
    """Return what a limit range says: `Container: cpu 100m..2 (default 500m); Pod: memory ..8Gi`."""
    found = []
    for item in dig(obj, "spec", "limits", default=()):
        resources = sorted({name for part in ("min", "max", "defaultRequest") for name in item.get(part, {})})
        found.append(f"{item['type']}: {', '.join(_limited(item, name) for name in resources)}".rstrip(": "))
    return "; ".join(found)


def _limited(item: Mapping[str, Any], resource: str) -> str:
    least, most, default = (item.get(part, {}).get(resource) for part in ("min", "max", "defaultRequest"))
    between = "" if least is None and most is None else f" {least or ''}..{most or ''}"
    return f"{resource}{between}{'' if default is None else f' (default {default})'}"


def taints(obj: Object) -> str:
    out = []
    for taint in dig(obj, "spec", "nodeTaints", default=()):
        value = f"={taint['value']}" if taint.get("value") else ""
        out.append(f"{taint.get('key')}{value}:{taint.get('effect', '')}")
    return ",".join(out) or "<none>"


def cohort_age(obj: Object) -> str:
    """Return the age; one that exists because queues name it has none."""
    return "" if dig(obj, "status", "implicit", default=False) else object_age(obj)


def flavor_names(obj: Object) -> str:
    groups = dig(obj, "spec", "resourceGroups", default=())
    return ",".join(flavor["name"] for group in groups for flavor in group.get("flavors", ()))


# Agents


def agent_on_loss(obj: Object) -> str:
    """Return what becomes of an agent's jobs if it is away: `Wait`, `Requeue`, `Requeue 60s`."""
    after_s = dig(obj, "status", "onLoss", "afterSeconds", default=None)
    policy = dig(obj, "status", "onLoss", "policy", default="Requeue")
    lease = " (lease)" if dig(obj, "status", "lease", default=False) else ""
    return f"{policy}{'' if after_s is None else f' {after_s:g}s'}{lease}"


def agent_kinds(obj: Object) -> str:
    """Return the kinds of jobs that an agent runs, `<any>` if all."""
    return ",".join(dig(obj, "status", "kinds", default=())) or "<any>"


def agent_flavors(obj: Object) -> str:
    """Return the flavors that an agent serves, `<any>` if all, `<unknown>` if nobody knows."""
    found = dig(obj, "status", "flavors", default=None)
    return "<unknown>" if found is None else ",".join(found) or "<any>"
