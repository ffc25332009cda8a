"""`sluice describe`: everything about an object, for reading."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import click

from sluice.api.quantity import format_value
from sluice.events.query import HistoryRequest, ListRequest, Object

from .client import Api, run
from .complete import complete_targets
from .durations import age, precise
from .get import not_found
from .history import clock
from .humane import describe as in_words
from .output import to_yaml
from .resources import (
    Resource,
    amount,
    condition,
    dig,
    key,
    name,
    object_age,
    position,
    usage_cells,
    workload_status,
)
from .selectors import all_namespaces_option, namespace_option, parse_targets, selector_option
from .table import Column, bar, render

Lines = list[str]
_LABEL = 18


@click.command()
@click.argument(
    "arguments", nargs=-1, metavar="TYPE [NAME...] | TYPE/NAME...", shell_complete=complete_targets
)
@namespace_option()
@all_namespaces_option()
@selector_option()
@click.pass_context
def describe(
    ctx: click.Context, arguments: tuple[str, ...], namespace: str, all_namespaces: bool, selector: str
) -> None:
    """Show everything about objects: spec, state, conditions, what happened, and usage for queues.

    \b
    Examples:
      sluice describe job train
      sluice describe cq team-a
      sluice describe wl -l team=a
    """
    targets = parse_targets(arguments)

    async def work(api: Api) -> None:
        blocks: list[Lines] = []
        for resource, names in targets:
            where = "" if all_namespaces or not resource.namespaced else namespace
            found = await _objects(api, resource, names, where, selector)
            blocks += [await lines_of(api, resource, obj) for obj in found]
        if not blocks:
            click.echo("No resources found.", err=True)
        click.echo("\n\n\n".join("\n".join(block) for block in blocks), nl=bool(blocks))

    run(ctx, work)


async def _objects(
    api: Api, resource: Resource, names: Sequence[str], namespace: str, selector: str
) -> list[Object]:
    if not names:
        request = ListRequest(kind=resource.kind, namespace=namespace, label_selector=selector)
        return (await api.list(request)).items
    found = []
    for one in names:
        obj = await api.get(resource.kind, one, namespace)
        if obj is None:
            raise await not_found(api, resource, one, namespace)
        found.append(obj)
    return found


async def lines_of(api: Api, resource: Resource, obj: Object) -> Lines:
    """Return the description of one object."""
    body = _BODIES.get(resource.kind)
    lines = _head(obj)
    if body is not None:
        lines += await body(api, obj)
    elif dig(obj, "spec", default={}):
        lines += ["Spec:", *_indented(to_yaml(obj["spec"]))]
    return lines


def field(label: str, value: object) -> str:
    """Return `Label:   value`, labels in one column."""
    return f"{label + ':':<{_LABEL}}{value}".rstrip()


def _head(obj: Object) -> Lines:
    metadata = obj["metadata"]
    lines = [field("Name", metadata["name"])]
    if metadata.get("namespace"):
        lines.append(field("Namespace", metadata["namespace"]))
    lines += _mapping("Labels", metadata.get("labels") or {})
    lines += _mapping("Annotations", metadata.get("annotations") or {})
    lines.append(field("Kind", f"{obj.get('kind')} ({obj.get('apiVersion')})"))
    if metadata.get("creationTimestamp"):
        lines.append(field("Created", f"{metadata['creationTimestamp']} ({object_age(obj)} ago)"))
    if metadata.get("deletionTimestamp"):
        lines.append(field("Terminating", f"since {metadata['deletionTimestamp']}: in use"))
    if metadata.get("resourceVersion"):
        generation = f", generation {metadata['generation']}" if metadata.get("generation") else ""
        lines.append(field("Last change", f"log sequence {metadata['resourceVersion']}{generation}"))
    return lines


def _mapping(label: str, pairs: dict[str, str]) -> Lines:
    if not pairs:
        return [field(label, "<none>")]
    first, *rest = [f"{k}={v}" for k, v in sorted(pairs.items())]
    return [field(label, first), *(" " * _LABEL + line for line in rest)]


def _indented(text: str, by: int = 2) -> Lines:
    return [" " * by + line for line in text.rstrip("\n").splitlines()]


def _conditions(obj: Object) -> Lines:
    conditions = dig(obj, "status", "conditions", default=[])
    if not conditions:
        return []
    columns = [
        Column[Object]("TYPE", lambda c: str(c.get("type", ""))),
        Column[Object]("STATUS", lambda c: str(c.get("status", ""))),
        Column[Object]("REASON", lambda c: str(c.get("reason", ""))),
        Column[Object]("SINCE", lambda c: _since(c.get("lastTransitionTime"))),
        Column[Object]("MESSAGE", lambda c: str(c.get("message", ""))),
    ]
    return ["Conditions:", *("  " + line for line in render(conditions, columns))]


def _since(moment: str | None) -> str:
    import time

    return "" if not moment or moment.startswith("1970") else age(moment, time.time())


async def _history(api: Api, obj: Object, kind: str) -> Lines:
    metadata = obj["metadata"]
    request = HistoryRequest(kind=kind, name=metadata["name"], namespace=metadata["namespace"], limit=20)
    found = (await api.history(request)).items
    if not found:
        return ["Events:           <none>"]
    return ["Events:", *("  " + line for line in render(found, _EVENTS))]


_EVENTS = (
    Column[Object]("SEQ", lambda entry: str(entry["seq"]), right=True),
    Column[Object]("TIME", lambda entry: clock(entry["at"])),
    Column[Object]("TYPE", lambda entry: str(entry.get("type", ""))),
    Column[Object]("REASON", lambda entry: str(entry.get("reason", ""))),
    Column[Object]("MESSAGE", lambda entry: str(entry.get("message") or in_words(entry["event"]))),
)


# Jobs and workloads


async def _job(api: Api, obj: Object) -> Lines:
    status = dig(obj, "status", default={})
    lines = [
        field("Status", status.get("phase")),
        field("Reason", status.get("reason", "")) if status.get("reason") else "",
        field("Message", status.get("message", "")) if status.get("message") else "",
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
        field("Runs on", status["executor"]) if status.get("executor") else "",
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
        lines += _assignment(workload) + _family(workload) + _migrations(workload) + _conditions(workload)
    return lines + await _history(api, obj, "Job")


def _slices(slices: Sequence[Object]) -> Lines:
    """Return the lineage of an elastic job: each slice, its size, its state, what it takes the place of."""
    if not slices:
        return []
    lines = ["Slices:"]
    for found in slices:
        pods = ", ".join(f"{count} x {pod_set}" for pod_set, count in found["pods"].items())
        after = f", after {found['replaces']}" if found["replaces"] else ""
        lines.append(f"  {found['name']}: {pods}, {found['state']}{after}")
    return lines


def _priority(status: Object) -> str:
    named = f" ({status['priorityClass']})" if status.get("priorityClass") else ""
    return f"{status.get('priority', 0)}{named}"


async def _workload(api: Api, obj: Object) -> Lines:
    owners = obj["metadata"].get("ownerReferences") or []
    lines = [
        field("Owner", ", ".join(f"{owner['kind']}/{owner['name']}" for owner in owners) or "<none>"),
        field("Status", workload_status(obj)),
        field("Queue", dig(obj, "spec", "queueName")),
        field("Priority", dig(obj, "spec", "priority", default=0)),
        field("Position", position(obj)) if position(obj) else "",
        field("Active", dig(obj, "spec", "active", default=True)),
    ]
    lines = [line for line in lines if line]
    lines += _pod_sets(obj) + _assignment(obj) + _checks(obj) + _family(obj) + _migrations(obj)
    requeue = dig(obj, "status", "requeueState", default=None)
    if requeue:
        lines.append(
            field("Requeue", f"{requeue.get('count', 0)} times, next {requeue.get('requeueAt', 'now')}")
        )
    return lines + _conditions(obj) + await _history(api, obj, "Workload")


def _family(obj: Object) -> Lines:
    """Return the tree of a parent and its variants, the most preferred first."""
    variants = dig(obj, "status", "variants", default=())
    if not variants:
        return []
    lines = [f"  {obj['metadata']['name']}"]
    for number, variant in enumerate(variants, 1):
        branch = "└──" if number == len(variants) else "├──"
        like: Object = {"spec": {"active": variant.get("active", True)}, "status": variant}
        state = workload_status(like) if variant.get("active", True) else "Inactive"
        names = ",".join(variant.get("resourceFlavors", ()))
        why = condition(like, "QuotaReserved").get("message", "") if state in ("Pending", "Evicted") else ""
        lines.append(f"  {branch} {variant['name']}  [{names}]  {state}" + (f"  {why}" if why else ""))
    return ["Variants:", *lines]


def _migrations(obj: Object) -> Lines:
    """Return each stop of a job that runs through variants, and the time that it cost."""
    lines = []
    for one in dig(obj, "status", "migrations", default=()):
        target = one.get("to", "...")
        lost = f", {precise(float(one['lostSeconds']))} lost" if "lostSeconds" in one else ""
        lines.append(f"  {one['evictedAt']}  {one.get('from', '')} -> {target}  {one['reason']}{lost}")
    return ["Migrations:", *lines] if lines else []


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
    for assigned in admission.get("podSetAssignments", ()):
        usage = assigned.get("resourceUsage", {})
        flavors = assigned.get("flavors", {})
        text = ", ".join(
            f"{resource} {usage.get(resource, 0)} of {flavor}" for resource, flavor in flavors.items()
        )
        lines.append(f"  {assigned.get('name', 'main')}: {assigned.get('count', '?')} pods, {text}")
    return lines


def _checks(obj: Object) -> Lines:
    checks = dig(obj, "status", "admissionChecks", default=())
    lines = [
        f"  {check['name']}: {check.get('state', '')} {check.get('message', '')}".rstrip() for check in checks
    ]
    return ["Admission checks:", *lines] if lines else []


# Queues


def _usage_bars(obj: Object) -> Lines:
    rows = usage_cells(obj)
    if not rows:
        return ["Quota:            <none>"]
    limits = _limits(obj)
    columns = [
        Column[tuple[str, str, int, int, int]]("FLAVOR", lambda row: row[0]),
        Column[tuple[str, str, int, int, int]]("RESOURCE", lambda row: row[1]),
        Column[tuple[str, str, int, int, int]]("USED", lambda row: format_value(row[1], row[2]), right=True),
        Column[tuple[str, str, int, int, int]](
            "NOMINAL", lambda row: format_value(row[1], row[4]), right=True
        ),
        Column[tuple[str, str, int, int, int]](
            "BORROWED", lambda row: format_value(row[1], row[3]) if row[3] else "", right=True
        ),
        Column[tuple[str, str, int, int, int]]("LIMITS", lambda row: limits.get((row[0], row[1]), "")),
        Column[tuple[str, str, int, int, int]](
            "", lambda row: bar(row[2], row[4]) + (f" {100 * row[2] // row[4]}%" if row[4] else "")
        ),
    ]
    return ["Usage:", *("  " + line for line in render(rows, columns))]


def _limits(obj: Object) -> dict[tuple[str, str], str]:
    found = {}
    for group in dig(obj, "spec", "resourceGroups", default=()):
        for flavor in group.get("flavors", ()):
            for resource in flavor.get("resources", ()):
                parts = [
                    f"{word} {resource[limit]}"
                    for word, limit in (("borrow", "borrowingLimit"), ("lend", "lendingLimit"))
                    if resource.get(limit) is not None
                ]
                found[(flavor["name"], resource["name"])] = ", ".join(parts)
    return found


async def _cluster_queue(api: Api, obj: Object) -> Lines:
    spec = dig(obj, "spec", default={})
    preemption = spec.get("preemption", {})
    borrow = preemption.get("borrowWithinCohort", {}).get("policy", "Never")
    lines = [
        field("Cohort", spec.get("cohortName") or "<none>"),
        field("Strategy", spec.get("queueingStrategy")),
        field("Preemption", f"within queue {preemption.get('withinClusterQueue', 'Never')}, "
              f"reclaim {preemption.get('reclaimWithinCohort', 'Never')}, borrow {borrow}"),
        field("Stop policy", spec.get("stopPolicy", "None")),
        field("Workloads", f"{dig(obj, 'status', 'pendingWorkloads', default=0)} pending, "
              f"{dig(obj, 'status', 'reservingWorkloads', default=0)} with quota, "
              f"{dig(obj, 'status', 'admittedWorkloads', default=0)} admitted"),
    ]  # fmt: skip
    queues = (await api.list(ListRequest(kind="LocalQueue"))).items
    here = [key(queue) for queue in queues if dig(queue, "spec", "clusterQueue") == name(obj)]
    lines.append(field("Local queues", ", ".join(here) or "<none>"))
    return lines + _usage_bars(obj) + _conditions(obj) + await _waiting(api, here)


async def _local_queue(api: Api, obj: Object) -> Lines:
    lines = [
        field("Cluster queue", dig(obj, "spec", "clusterQueue")),
        field("Stop policy", dig(obj, "spec", "stopPolicy", default="None")),
        field("Workloads", f"{dig(obj, 'status', 'pendingWorkloads', default=0)} pending, "
              f"{dig(obj, 'status', 'reservingWorkloads', default=0)} with quota, "
              f"{dig(obj, 'status', 'admittedWorkloads', default=0)} admitted"),
    ]  # fmt: skip
    for flavor in dig(obj, "status", "flavorsReservation", default=()):
        used = ", ".join(f"{r['name']} {r['total']}" for r in flavor.get("resources", ()))
        lines.append(field(f"Uses {flavor['name']}", used))
    return lines + _conditions(obj) + await _waiting(api, [key(obj)])


async def _waiting(api: Api, queues: Sequence[str], most: int = 10) -> Lines:
    """Return the first pending workloads of local queues, in order of their place."""
    lists = await asyncio.gather(
        *(
            api.list(
                ListRequest(
                    kind="Workload",
                    namespace=queue.split("/", 1)[0],
                    field_selector=f"spec.queueName={queue.split('/', 1)[1]}",
                )
            )
            for queue in queues
        )
    )
    pending = [obj for found in lists for obj in found.items if position(obj)]
    if not pending:
        return []
    pending.sort(key=lambda obj: int(position(obj)))
    columns = [
        Column[Object]("POSITION", position, right=True),
        Column[Object]("WORKLOAD", key),
        Column[Object]("PRIORITY", lambda obj: str(dig(obj, "spec", "priority", default=0)), right=True),
        Column[Object]("WAITING", object_age),
        Column[Object]("WHY", _why),
    ]
    lines = ["Waiting:", *("  " + line for line in render(pending[:most], columns))]
    return lines + ([f"  ... and {len(pending) - most} more"] if len(pending) > most else [])


def _why(obj: Object) -> str:
    for found in dig(obj, "status", "conditions", default=()):
        if found.get("type") == "QuotaReserved":
            return f"{found.get('reason', '')}: {found.get('message', '')}"
    return ""


async def _cohort(api: Api, obj: Object) -> Lines:
    cohorts = (await api.list(ListRequest(kind="Cohort"))).items
    queues = (await api.list(ListRequest(kind="ClusterQueue"))).items
    lines = [field("Parent", dig(obj, "spec", "parentName") or "<none>"), "Tree:"]
    lines += _tree(name(obj), cohorts, queues, "  ", [])
    return lines + _subtree_usage(obj)


def _tree(
    cohort: str, cohorts: Sequence[Object], queues: Sequence[Object], indent: str, seen: list[str]
) -> Lines:
    if cohort in seen:
        return [f"{indent}{cohort} (cycle)"]
    lines = [f"{indent}{cohort}"]
    for child in cohorts:
        if dig(child, "spec", "parentName") == cohort:
            lines += _tree(name(child), cohorts, queues, indent + "  ", [*seen, cohort])
    for queue in queues:
        if dig(queue, "spec", "cohortName") == cohort:
            lines.append(f"{indent}  {name(queue)}  {_used_of_nominal(queue)}")
    return lines


def _used_of_nominal(queue: Object) -> str:
    return "; ".join(
        f"{flavor} {resource} {format_value(resource, used)}/{format_value(resource, nominal)}"
        + (f" (+{format_value(resource, borrowed)} borrowed)" if borrowed else "")
        for flavor, resource, used, borrowed, nominal in usage_cells(queue)
        if used or nominal
    )


def _subtree_usage(obj: Object) -> Lines:
    used = _totals(obj, "flavorsReservation")
    nominal = _totals(obj, "nominalQuota")
    if not nominal:
        return []
    lines = ["Usage of the tree:"]
    for (flavor, resource), whole in nominal.items():
        have = used.get((flavor, resource), 0)
        share = f"{format_value(resource, have)}/{format_value(resource, whole)}"
        lines.append(f"  {flavor:<16} {resource:<10} {bar(have, whole)} {share}")
    return lines


def _totals(obj: Object, which: str) -> dict[tuple[str, str], int]:
    return {
        (flavor["name"], resource["name"]): amount(resource["name"], resource.get("total", 0))
        for flavor in dig(obj, "status", which, default=())
        for resource in flavor.get("resources", ())
    }


async def _flavor(api: Api, obj: Object) -> Lines:
    spec = dig(obj, "spec", default={})
    lines = _mapping("Node labels", spec.get("nodeLabels", {}))
    taints = [f"{t.get('key')}={t.get('value', '')}:{t.get('effect')}" for t in spec.get("nodeTaints", ())]
    lines.append(field("Taints", ", ".join(taints) or "<none>"))
    queues = (await api.list(ListRequest(kind="ClusterQueue"))).items
    rows = [(name(queue), *cell) for queue in queues for cell in usage_cells(queue) if cell[0] == name(obj)]
    if not rows:
        return [*lines, field("Used by", "<no cluster queue>")]
    lines.append("Used by:")
    for queue, _, resource, used, _, nominal in rows:
        share = f"{format_value(resource, used)}/{format_value(resource, nominal)}"
        lines.append(f"  {queue:<20} {resource:<10} {bar(used, nominal)} {share}")
    return lines


async def _agent(api: Api, obj: Object) -> Lines:
    jobs = (await api.list(ListRequest(kind="Job", field_selector=f"status.executor={name(obj)}"))).items
    running = [key(job) for job in jobs if dig(job, "status", "phase") == "Running"]
    return [
        field("Status", dig(obj, "status", "phase")),
        field("Flavors", ", ".join(dig(obj, "status", "flavors", default=())) or "<any>"),
        field("Message", dig(obj, "status", "message")),
        field("Running", ", ".join(running) or "<none>"),
    ]


async def _check(_: Api, obj: Object) -> Lines:
    spec = dig(obj, "spec", default={})
    parameters = spec.get("parameters")
    return [
        field("Controller", spec.get("controllerName")),
        field("Parameters", f"{parameters['kind']}/{parameters['name']}" if parameters else "<none>"),
        *_conditions(obj),
    ]


_BODIES: dict[str, Callable[[Api, Object], Awaitable[Lines]]] = {
    "Job": _job,
    "Workload": _workload,
    "ClusterQueue": _cluster_queue,
    "LocalQueue": _local_queue,
    "Cohort": _cohort,
    "ResourceFlavor": _flavor,
    "AdmissionCheck": _check,
    "Agent": _agent,
}
