"""Descriptions of queues, cohorts and flavors: use of quota, and who waits."""

from collections.abc import Sequence

from sluice.api.features import CONCURRENT_ADMISSION, enabled
from sluice.api.quantity import format_value
from sluice.cli.cell.client import Api
from sluice.cli.kit.columns import (
    Usage,
    amount,
    condition,
    dig,
    key,
    name,
    namespace,
    pending_reason,
    position,
    reservations,
    usage_cells,
    variant_parent,
    waiting,
)
from sluice.cli.kit.describe_format import Lines, conditions, field, mapping
from sluice.cli.kit.durations import human
from sluice.cli.kit.table import Column, bar, render
from sluice.core.world.inadmissible import without_other_flavors
from sluice.protocol.query import ListRequest, Object


def _usage_bars(obj: Object) -> Lines:
    rows = usage_cells(obj)
    if not rows:
        return ["Quota:            <none>"]
    limits = _limits(obj)
    columns = [
        Column[Usage]("FLAVOR", lambda row: row.flavor),
        Column[Usage]("RESOURCE", lambda row: row.resource),
        Column[Usage]("USED", lambda row: format_value(row.resource, row.used), right=True),
        Column[Usage]("NOMINAL", lambda row: format_value(row.resource, row.nominal), right=True),
        Column[Usage]("BORROWED", lambda row: _some(row, row.borrowed), right=True),
        Column[Usage]("LIMITS", lambda row: limits.get((row.flavor, row.resource), "")),
        Column[Usage](
            "", lambda row: bar(row.used, row.nominal) + (f" {_percent(row)}%" if row.nominal else "")
        ),
    ]
    if any(row.promised for row in rows):
        columns.insert(5, Column("PROMISED", lambda row: _some(row, row.promised), right=True))
    return ["Usage:", *("  " + line for line in render(rows, columns))]


def _some(row: Usage, amount: int) -> str:
    return format_value(row.resource, amount) if amount else ""


def _percent(row: Usage) -> int:
    return 100 * row.used // row.nominal


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


async def cluster_queue_lines(api: Api, obj: Object) -> Lines:
    """Return what is known of a cluster queue: its use, and who waits in it."""
    spec = dig(obj, "spec", default={})
    preemption = spec.get("preemption", {})
    borrow = preemption.get("borrowWithinCohort", {}).get("policy", "Never")
    lines = [
        field("Cohort", spec.get("cohortName") or "<none>"),
        field("Strategy", spec.get("queueingStrategy")),
        *await _policy(api, spec),
        field("Preemption", f"within queue {preemption.get('withinClusterQueue', 'Never')}, "
              f"reclaim {preemption.get('reclaimWithinCohort', 'Never')}, borrow {borrow}"),
        *_checks(spec),
        field("Stop policy", spec.get("stopPolicy", "None")),
        _counted(obj),
    ]  # fmt: skip
    queues = (await api.list(ListRequest(kind="LocalQueue"))).items
    here = [key(queue) for queue in queues if dig(queue, "spec", "clusterQueue") == name(obj)]
    lines.append(field("Local queues", ", ".join(here) or "<none>"))
    return lines + _usage_bars(obj) + conditions(obj) + await _waiting(api, obj)


def _counted(obj: Object) -> str:
    pending, reserving, admitted = (
        dig(obj, "status", f"{what}Workloads", default=0) for what in ("pending", "reserving", "admitted")
    )
    return field("Workloads", f"{pending} pending, {reserving} with quota, {admitted} admitted")


def _checks(spec: Object) -> Lines:
    """Return which checks its workloads must pass, and those that are for some flavors only (AC1)."""
    rules = dig(spec, "admissionChecksStrategy", "admissionChecks", default=[])
    texts = [
        f"{rule['name']} (on {', '.join(rule['onFlavors'])})" if rule.get("onFlavors") else str(rule["name"])
        for rule in rules
    ]
    return [field("Checks", ", ".join(texts))] if texts else []


async def _policy(api: Api, spec: Object) -> Lines:
    """Return how jobs race in the queue (CA1): where they move to, and their variants, the best first."""
    policy = spec.get("concurrentAdmissionPolicy")
    if policy is None:
        return []
    settings = await api.get("Configuration", "default") or {}
    if not enabled(dig(settings, "spec", "featureGates", default={}), CONCURRENT_ADMISSION):
        return [field("Migration", "none: the ConcurrentAdmission gate is off, jobs queue without variants")]
    mode = dig(policy, "migration", "mode", default="TryPreferredFlavors")
    limits = dig(policy, "migration", "constraints", default={})
    limit = limits.get("lastAcceptableFlavorName") or limits.get("lastAcceptableVariantName")
    if mode == "RetainFirstAdmission":
        moves = "jobs stay where they start"
    else:
        moves = f"jobs move up, to {limit} or better only" if limit else "jobs move up as better flavors free"
    explicit = policy.get("explicitVariants", ())
    lines = [field("Migration", f"{mode}: {moves}")]
    if not explicit:
        names = [f["name"] for group in spec.get("resourceGroups", ()) for f in group.get("flavors", ())]
        return [*lines, field("Variants", ", ".join(names) + " (the best first)")]
    return [*lines, "Variants (the best first):", *(f"  {_explicit(variant)}" for variant in explicit)]


def _explicit(variant: Object) -> str:
    delays = [
        f"{word} {human(variant[key])} {after}"
        for word, key, after in (
            ("races", "createDelaySeconds", "after the job's creation"),
            ("gives up", "deleteDelaySeconds", "after another one was admitted"),
        )
        if variant.get(key)
    ]
    flavors = ", ".join(variant.get("allowedResourceFlavors", ()))
    return f"{variant['name']}  [{flavors}]" + "".join(f"  {delay}" for delay in delays)


async def local_queue_lines(api: Api, obj: Object) -> Lines:
    """Return what is known of a local queue, and who waits in it."""
    lines = [
        field("Cluster queue", dig(obj, "spec", "clusterQueue")),
        field("Stop policy", dig(obj, "spec", "stopPolicy", default="None")),
        _counted(obj),
    ]  # fmt: skip
    for flavor in dig(obj, "status", "flavorsReservation", default=()):
        used = ", ".join(_used(resource) for resource in flavor.get("resources", ()))
        lines.append(field(f"Uses {flavor['name']}", used))
    for other in dig(obj, "status", "inOtherClusterQueues", default=()):
        text = (
            f"{other['reservingWorkloads']} of them with quota of ClusterQueue {other['name']}, from before"
        )
        lines.append(field("Elsewhere", text))
    return lines + conditions(obj) + await _waiting(api, obj)


def _used(resource: Object) -> str:
    """Return what a local queue has of a resource: `cpu 2 (+2 promised)`."""
    named, promised = resource["name"], resource.get("promised", 0)
    used = amount(named, resource["total"]) - amount(named, promised)
    return f"{named} {format_value(named, used)}" + (f" (+{promised} promised)" if promised else "")


async def _waiting(api: Api, queue: Object, most: int = 10) -> Lines:
    """Return the first pending workloads of a queue, in order of their places, and why they wait."""
    request = ListRequest(kind="Workload", waiting_in=key(queue), limit=most)
    pending = (await api.list(request)).items
    if not pending:
        return []
    lines = ["Waiting:", *("  " + line for line in render(pending, _WAITING))]
    more = int(dig(queue, "status", "pendingWorkloads", default=0)) - len(pending)
    if more > 0:
        lines.append(f"  ... and {more} more")
    why: dict[str, list[str]] = {}
    for obj in pending:
        message = str(condition(obj, "QuotaReserved").get("message", ""))
        places = why.setdefault(without_other_flavors(message), [])
        variant = dig(obj, "status", "variant", default="")
        # Variants stand for their job.
        owner = variant_parent(obj)
        place = f"{namespace(obj)}/{owner} ({variant})" if owner and variant else key(obj)
        if place not in places:
            places.append(place)
    return [*lines, "Why:", *(f"  {', '.join(places)}: {message}" for message, places in why.items())]


_WAITING = (
    Column[Object]("POSITION", position, right=True),
    Column[Object]("WORKLOAD", key),
    Column[Object]("PRIORITY", lambda obj: str(dig(obj, "spec", "priority", default=0)), right=True),
    Column[Object]("WAITING", waiting),
    Column[Object]("REASON", pending_reason),
)


async def cohort_lines(api: Api, obj: Object) -> Lines:
    """Return what is known of a cohort: the tree below it, and its use."""
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
        f"{cell.flavor} {cell.resource} {cell.share}"
        + (f" (+{format_value(cell.resource, cell.borrowed)} borrowed)" if cell.borrowed else "")
        for cell in usage_cells(queue)
        if cell.used or cell.nominal or cell.promised
    )


def _subtree_usage(obj: Object) -> Lines:
    used = reservations(obj)
    whole = {
        (flavor["name"], resource["name"]): amount(resource["name"], resource.get("total", 0))
        for flavor in dig(obj, "status", "nominalQuota", default=())
        for resource in flavor.get("resources", ())
    }
    if not whole:
        return []
    lines = ["Usage of the tree:"]
    for (flavor, resource), nominal in whole.items():
        cell = Usage(flavor, resource, *_in_tree(used.get((flavor, resource)), nominal))
        lines.append(f"  {flavor:<16} {resource:<10} {bar(cell.used, nominal)} {cell.share}")
    return lines


def _in_tree(found: tuple[int, int, int] | None, nominal: int) -> tuple[int, int, int, int]:
    used, borrowed, promised = found or (0, 0, 0)
    return used, borrowed, nominal, promised


async def flavor_lines(api: Api, obj: Object) -> Lines:
    """Return what is known of a flavor, and its use by queue."""
    spec = dig(obj, "spec", default={})
    lines = mapping("Node labels", spec.get("nodeLabels", {}))
    taints = [f"{t.get('key')}={t.get('value', '')}:{t.get('effect')}" for t in spec.get("nodeTaints", ())]
    lines.append(field("Taints", ", ".join(taints) or "<none>"))
    queues = (await api.list(ListRequest(kind="ClusterQueue"))).items
    flavor = name(obj)
    rows = [(name(queue), cell) for queue in queues for cell in usage_cells(queue) if cell.flavor == flavor]
    if not rows:
        return [*lines, field("Used by", "<no cluster queue>")]
    lines.append("Used by:")
    for queue, cell in rows:
        lines.append(f"  {queue:<20} {cell.resource:<10} {bar(cell.used, cell.nominal)} {cell.share}")
    return lines
