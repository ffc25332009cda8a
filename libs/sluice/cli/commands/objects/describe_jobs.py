"""Descriptions of jobs and workloads."""

import time
from collections.abc import Sequence

from sluice.api.labels import GATE_CONCURRENT_ADMISSION
from sluice.cli.cell.client import Api
from sluice.cli.kit.columns import (
    allowed_flavors,
    condition,
    dig,
    is_true,
    position,
    variant_gate,
    workload_status,
)
from sluice.cli.kit.describe_format import Lines, conditions, field, omitted
from sluice.cli.kit.durations import age, clock, precise
from sluice.cli.kit.table import Column, render
from sluice.core.workload.charges import size_text
from sluice.core.workload.reasons import FLAVOR_MIGRATION
from sluice.core.world.inadmissible import without_other_flavors
from sluice.protocol.query import HistoryRequest, Object
from sluice.replay.history.event_text import describe as in_words


async def job_lines(api: Api, obj: Object) -> Lines:
    """Return what is known of a job, of its workload, and of what happened to them."""
    status = dig(obj, "status", default={})
    lines = [
        field("Status", status.get("phase")),
        field("Reason", status.get("reason", "")) if status.get("reason") else "",
        field("Message", status.get("message", "")) if status.get("message") else "",
        *_refused(status),
        *_promised(obj),
        field("Queue", f"{status.get('queue', '<none>')} -> {status.get('clusterQueue') or '<none>'}"),
        field("Priority", _priority(status)),
        field("Position", f"{status['queuePosition']} in {status.get('clusterQueue')}")
        if "queuePosition" in status
        else "",
        field("Pod sets", ", ".join(f"{p['count']} x {p['name']}" for p in status.get("podSets", ()))),
        field("Flavors", ", ".join(status.get("flavors", ()))) if status.get("flavors") else "",
        field("Attempts", status.get("attempts", 0)),
        field("Waited", precise(status["waitedSeconds"])) if "waitedSeconds" in status else "",
        field("Ran", precise(status["ranSeconds"])) if "ranSeconds" in status else "",
        field(_where(status), status["executor"]) if status.get("executor") else "",
        field("Exit codes", ", ".join(f"{k}: {v}" for k, v in status.get("exitCodes", {}).items()))
        if status.get("exitCodes")
        else "",
    ]
    workload = None
    if status.get("workload"):
        lines.append(field("Workload", status["workload"]))
        workload = await api.get("Workload", status["workload"], obj["metadata"]["namespace"])
    lines = [line for line in lines if line]
    lines += _slices(status.get("slices", ()))
    if workload is not None:
        lines += _assignment(workload) + _checks(workload)
        lines += await _growth(api, obj)
        lines += _family(workload) + _migrations(workload) + conditions(workload)
    return lines + await _history(api, obj, "Job")


async def _growth(api: Api, job: Object) -> Lines:
    """Return what has been promised to the slice that is to replace the running one, and its checks."""
    status = job["status"]
    for found in status.get("slices", ()):
        if found["replaces"] != status["workload"] or found["state"] in ("Replaced", "Finished"):
            continue
        growth = await api.get("Workload", found["name"], job["metadata"]["namespace"])
        if growth is not None:
            lines = _assignment(growth) + _checks(growth)
            return [f"Growth ({found['name']}):", *(f"  {line}" for line in lines)] if lines else []
    return []


def _slices(slices: Sequence[Object], shown: str = "") -> Lines:
    """Return the lineage of an elastic job: each slice, its size, its state, what it takes the place of.

    *shown*: the slice that is described, marked in the list.
    """
    if not slices:
        return []
    lines = ["Slices:"]
    for found in slices:
        pods = size_text(found["pods"])
        after = f", after {found['replaces']}" if found["replaces"] else ""
        mark = " (this one)" if found["name"] == shown else ""
        why = f": {found['reason']}" if found.get("reason") else ""
        lines.append(f"  {found['name']}: {pods}, {found['state']}{after}{mark}{why}")
    return lines


def _promised(obj: Object) -> Lines:
    """Return by whom it is to be preempted, and when (AC6)."""
    found = []
    for one in dig(obj, "status", "toBePreempted", default=()):
        checks = " and ".join(one.get("afterChecks", ()))
        allow = "allow" if len(one.get("afterChecks", ())) > 1 else "allows"
        when = f"when {checks} {allow} it" if checks else "with the next decisions"
        found.append(field("To be preempted", f"by {one['by']}, {when}"))
    return found


def _refused(status: Object) -> Lines:
    """Return which edit was refused, and for which field: the job goes on as it was."""
    found = status.get("refused")
    return [field("Refused", f"{found['event']} (event {found['seq']}): {found['message']}")] if found else []


def _where(status: Object) -> str:
    return "Runs on" if status.get("phase") in ("Admitted", "Running", "Stopping") else "Ran on"


def _priority(status: Object) -> str:
    named = f" ({status['priorityClass']})" if status.get("priorityClass") else ""
    return f"{status.get('priority', 0)}{named}"


async def workload_lines(api: Api, obj: Object) -> Lines:
    """Return what is known of a workload, and what happened to it."""
    owners = obj["metadata"].get("ownerReferences") or []
    lines = [
        field("Owner", ", ".join(f"{owner['kind']}/{owner['name']}" for owner in owners) or "<none>"),
        field("Status", workload_status(obj)),
        *_promised(obj),
        field("Queue", dig(obj, "spec", "queueName")),
        field("Priority", dig(obj, "spec", "priority", default=0)),
        field("Position", position(obj)) if position(obj) else "",
        field("Active", "yes" if dig(obj, "spec", "active", default=True) else "no"),
        *_variant(obj),
    ]
    lines = [line for line in lines if line]
    lines += _slices(dig(obj, "status", "slice", "lineage", default=()), obj["metadata"]["name"])
    lines += _pod_sets(obj) + _assignment(obj) + _checks(obj) + _family(obj) + _migrations(obj)
    requeue = dig(obj, "status", "requeueState", default=None)
    if requeue:
        lines.append(
            field("Requeue", f"{requeue.get('count', 0)} times, next {requeue.get('requeueAt', 'now')}")
        )
    return lines + conditions(obj) + await _history(api, obj, "Workload")


def _variant(obj: Object) -> Lines:
    """Return what sets a variant apart: what it is for, and whether it may preempt."""
    if not dig(obj, "status", "variant"):
        return []
    gates = {gate["name"]: gate for gate in dig(obj, "status", "preemptionGates", default=())}
    since = dig(gates, GATE_CONCURRENT_ADMISSION, "lastTransitionTime")
    return [
        field("Variant", f"{dig(obj, 'status', 'variant')}, for {allowed_flavors(obj).replace(',', ', ')}"),
        field("Gate", f"{variant_gate(obj)}, since {since}" if since else variant_gate(obj)),
    ]


def _family(obj: Object) -> Lines:
    """Return the tree of a parent and its variants, the most preferred first."""
    variants = dig(obj, "status", "variants", default=())
    if not variants:
        return []
    lines = [f"  {obj['metadata']['name']}"]
    for number, variant in enumerate(variants, 1):
        branch = "└──" if number == len(variants) else "├──"
        like: Object = {"spec": {"active": variant.get("active", True)}, "status": variant}
        state = workload_status(like)
        names = ",".join(variant.get("resourceFlavors", ()))
        # Who has been evicted has its quota until it has stopped: that it has it is not what matters.
        kind = _TELLING.get(state, "")
        # Who is switched off for good says why: its check was rejected, or its time is up.
        ended = is_true(like, "DeactivationTarget") and state == "Inactive"
        why = str(condition(like, "DeactivationTarget" if ended else kind).get("message", ""))
        why = ("being stopped: " if state == "Evicted" and why else "") + without_other_flavors(why)
        lines.append(f"  {branch} {variant['name']}  [{names}]  {state}" + (f"  {why}" if why else ""))
    return ["Variants:", *lines]


_TELLING = {
    "Pending": "QuotaReserved",
    "Inactive": "QuotaReserved",
    "QuotaReserved": "Admitted",
    "Evicted": "Evicted",
}
"""Phase of a variant -> the condition that says why."""


def _migrations(obj: Object) -> Lines:
    """Return each move of a job that runs through variants, its other stops, and the time that each cost."""
    found = []
    for title, name in (("Migrations:", "migrations"), ("Stops:", "stops")):
        lines = []
        for one in dig(obj, "status", name, default=()):
            target = one.get("to", "...")
            lost = f", {precise(float(one['lostSeconds']))} lost" if "lostSeconds" in one else ""
            # Who was stopped need not go on anywhere.
            onward = f" -> {target}" if one.get("to") or name == "migrations" else ""
            reason = one["reason"]
            if name == "stops" and reason == FLAVOR_MIGRATION:
                # It goes on where it was: what it was to move to was rejected, or taken from it.
                reason = "gave up its FlavorMigration"
            lines.append(f"  {one['evictedAt']}  {one.get('from', '')}{onward}  {reason}{lost}")
        found += [title, *lines] if lines else []
    return found


def _pod_sets(obj: Object) -> Lines:
    lines = []
    for pod_set in dig(obj, "spec", "podSets", default=()):
        containers = dig(pod_set, "template", "spec", "containers", default=())
        requests = containers[0].get("resources", {}).get("requests", {}) if containers else {}
        each = ", ".join(f"{k} {v}" for k, v in requests.items())
        least = f" (at least {pod_set['minCount']})" if pod_set.get("minCount") else ""
        pods = f"{pod_set.get('count', 1)}{least} pods, each {each or 'nothing'}"
        lines.append(f"  {pod_set.get('name', 'main')}: {pods}")
    return ["Pod sets:", *lines] if lines else []


def _assignment(obj: Object) -> Lines:
    admission = dig(obj, "status", "admission", default=None)
    if not admission:
        return []
    lines = [f"Assigned in {admission['clusterQueue']}:"]
    ended = {each["name"]: each["count"] for each in dig(obj, "status", "reclaimablePods", default=())}
    charged = dig(obj, "status", "chargedPods", default={})
    for assigned in admission.get("podSetAssignments", ()):
        usage = assigned.get("resourceUsage", {})
        flavors = assigned.get("flavors", {})
        text = ", ".join(
            f"{resource} {usage.get(resource, 0)} of {flavor}" for resource, flavor in flavors.items()
        )
        name = assigned.get("name", "main")
        given_back = (
            f" ({ended.get(name, 0)} need no quota: charged for {charged[name]})" if name in charged else ""
        )
        lines.append(f"  {name}: {assigned.get('count', '?')} pods, {text}{given_back}")
    return lines


def _checks(obj: Object) -> Lines:
    """Return what each admission check says, for which attempt, and since when."""
    checks = dig(obj, "status", "admissionChecks", default=())
    return ["Admission checks:", *("  " + line for line in render(checks, _CHECKS))] if checks else []


def _check_message(check: Object) -> str:
    said = ": ".join(check[word] for word in ("reason", "message") if check.get(word))
    added = [
        f"{word} {key}={value}"
        for update in check.get("podSetUpdates", ())
        for word, field_ in (("label", "labels"), ("annotation", "annotations"), ("node", "nodeSelector"))
        for key, value in update.get(field_, {}).items()
    ]
    return said + (f" ({'; '.join(added)})" if added else "")


def _check_state(check: Object) -> str:
    state, after = str(check.get("state", "")), check.get("requeueAfterSeconds")
    return f"{state} (after {after}s)" if after and state == "Retry" else state


_CHECKS = (
    Column[Object]("CHECK", lambda check: str(check["name"])),
    Column[Object]("STATE", _check_state),
    Column[Object]("ATTEMPT", lambda check: str(check.get("attempt") or ""), right=True),
    Column[Object]("RETRIES", lambda check: str(check.get("retryCount") or ""), right=True),
    Column[Object]("SINCE", lambda check: age(check.get("lastTransitionTime"), time.time())),
    Column[Object]("CONTROLLER", lambda check: str(check.get("controller", ""))),
    Column[Object]("MESSAGE", _check_message),
)


async def _history(api: Api, obj: Object, kind: str) -> Lines:
    metadata = obj["metadata"]
    request = HistoryRequest(kind=kind, name=metadata["name"], namespace=metadata["namespace"], limit=20)
    found = await api.history(request)
    if not found.items:
        return ["Events:           <none>"]
    lines = [*omitted(found, metadata), *render(found.items, _EVENTS)]
    return ["Events:", *("  " + line for line in lines)]


_EVENTS = (
    Column[Object]("SEQ", lambda entry: str(entry["seq"]), right=True),
    Column[Object]("TIME", lambda entry: clock(entry["at"])),
    Column[Object]("TYPE", lambda entry: str(entry.get("type", ""))),
    Column[Object]("REASON", lambda entry: str(entry.get("reason", ""))),
    Column[Object]("MESSAGE", lambda entry: str(entry.get("message") or in_words(entry["event"]))),
)
