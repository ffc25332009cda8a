"""Answers from one world: what is there, who has what, who waits."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from sluice.core.config.objects import manifest_of
from sluice.core.views import WorkloadView, position, why_pending
from sluice.core.views.equivalence import class_key
from sluice.core.views.present.job import current
from sluice.core.views.present.phase import WorkloadPhase, workload_phase
from sluice.core.views.present.unadmitted import waiting_for
from sluice.events.base import JobKey, WorkloadKey
from sluice.events.codec import rfc3339
from sluice.readmodel.objects import NAMESPACED_KINDS, keys, render
from sluice.readmodel.selector import Selector
from sluice.readmodel.world import World
from sluice.replay.views.describe import about

from .answers import (
    Borrower,
    CheckRow,
    JobRow,
    NodeRow,
    PendingRow,
    QueueRow,
    ReasonRow,
    Warning_,
)
from .job_list import counted, job_phases, remembered
from .problems import NotFoundError
from .quota import QuotaTree
from .rows import in_places, job_row, jobs_of, local_queue_row, pending_in, pending_row, queue_row

Plain = dict[str, Any]

SHOWN = 100
"""Of what waits in, or holds, one queue."""
TOP = 10


def queue_rows(world: World, tree: QuotaTree | None = None) -> list[QueueRow]:
    tree = tree or QuotaTree(world)
    return [queue_row(world, tree, queue) for _, queue in sorted(world.view.cluster_queues.items())]


def queue_page(world: World, name: str) -> Plain:
    """Return one cluster queue: its row, who waits and who holds its quota."""
    queue = world.view.cluster_queues.get(name)
    found = render(world, "ClusterQueue", name)
    if queue is None or found is None:
        raise NotFoundError("ClusterQueue", name, world.view.cluster_queues)
    waiting = pending_in(world, name, SHOWN)
    holders: dict[str, None] = {}
    for key in queue.workloads:
        job = world.view.workloads[key].record.job
        if job is not None:
            holders[job.key] = None
        if len(holders) >= SHOWN:
            break
    spec = found.get("spec", {})
    strategy = spec.get("admissionChecksStrategy") or {}
    checks = [*spec.get("admissionChecks", ()), *(c["name"] for c in strategy.get("admissionChecks", ()))]
    return {
        "queue": queue_row(world, QuotaTree(world), queue),
        "object": found,
        "local_queues": sorted(queue.local_queues),
        "locals": [local_queue_row(world, key) for key in sorted(queue.local_queues)],
        "head": next((row for row in waiting if row.position == 1), None),
        "waiting": waiting,
        "holding": jobs_of(world, holders),
        "policies": spec.get("preemption", {}),
        "checks": checks,
    }


def cohort_page(world: World, name: str) -> Plain:
    """Return one cohort: its numbers, its members, and who lends to whom in it."""
    tree = QuotaTree(world)
    node = tree.tree.cohorts.get(name)
    if node is None:
        raise NotFoundError("Cohort", name, tree.tree.cohorts)
    rows = tree.nodes()
    mine = next(row for row in rows if row.kind == "Cohort" and row.name == name)
    prefix = f"{mine.path}/"
    members = [row for row in rows if row.path.startswith(prefix)]
    lenders = [name_of(row) for row in (mine, *members)]
    return {
        "node": mine,
        "members": members,
        "lending": tree.loans_of(lenders),
        "object": render(world, "Cohort", name),
    }


def name_of(row: NodeRow) -> str:
    return row.name if row.kind == "ClusterQueue" else f"cohort/{row.name}"


# Who waits


def waiting_keys(world: World, queue: str) -> list[tuple[WorkloadKey, int, int]]:
    """Return (workload, place, of how many) of all that wait, queue by queue, in order."""
    names = [queue] if queue else sorted(world.view.cluster_queues)
    found = []
    for name in names:
        places = in_places(world, name)
        of = len({place for place in places.values() if place})
        found += [(key, place, of) for key, place in places.items()]
    if not queue:
        # What leads nowhere waits, too.
        for local in world.view.local_queues.values():
            if local.cluster_queue is None or local.cluster_queue.name not in world.view.cluster_queues:
                found += [(key, 0, 0) for key in local.pending]
    return found


def pending_page(
    world: World, *, queue: str, namespace: str, reason: str, equal: bool, start: int, limit: int
) -> Plain:
    """Return a page of those that wait."""
    view = world.view
    chosen: list[tuple[WorkloadView, int, int]] = []
    reasons: Counter[str] = Counter()
    for key, place, of in waiting_keys(world, queue):
        workload = view.workloads[key]
        if namespace and workload.record.namespace != namespace:
            continue
        why = why_pending(view, workload)[0]
        reasons[why] += 1
        if not reason or why == reason:
            chosen.append((workload, place, of))
    if not equal:
        page = [pending_row(world, *one, world.at) for one in chosen[start : start + limit]]
        return _paged(page, len(chosen), reasons, start, limit)
    classes: dict[tuple[str, object], list[tuple[WorkloadView, int, int]]] = defaultdict(list)
    for one in chosen:
        classes[one[0].cluster_queue_name, class_key(view, one[0])].append(one)
    groups = list(classes.values())
    page = []
    for group in groups[start : start + limit]:
        row = pending_row(world, *group[0], world.at)
        more = [w.record.job.key if w.record.job is not None else w.key for w, _, _ in group[1 : TOP + 1]]
        page.append(_with(row, count=len(group), more=more))
    return _paged(page, len(groups), reasons, start, limit)


def _with(row: PendingRow, **fields: Any) -> PendingRow:
    from msgspec.structs import replace

    return replace(row, **fields)


def _paged(page: list[PendingRow], total: int, reasons: Counter[str], start: int, limit: int) -> Plain:
    return {
        "items": page,
        "total": total,
        "reasons": dict(reasons.most_common()),
        "continue_": str(start + limit) if start + limit < total else "",
    }


# Jobs


def job_page(world: World, key: str) -> Plain:
    """Return one job: its object, its workloads, and what `sluice replay state` says of it."""
    found = render(world, "Job", key)
    row = job_row(world, key)
    if found is None or row is None:
        raise NotFoundError("Job", key, keys(world, "Job"))
    view = world.view.jobs.get(JobKey(key))
    workloads: list[Plain] = []
    for workload in view.workloads.values() if view is not None else ():
        for one in (workload, *workload.variants.values()):
            shown = render(world, "Workload", one.key)
            if shown is not None:
                workloads.append(shown)
    state = next(
        (plain for kind, there, plain in about(world.cell, key) if kind == "Job" and there == key), {}
    )
    return {"row": row, "object": found, "workloads": workloads, "state": state}


def workload_keys(world: World, key: str) -> list[str]:
    """Return a job and all workloads and variants that it has."""
    view = world.view.jobs.get(JobKey(key))
    found = [key]
    for workload in view.workloads.values() if view is not None else ():
        found += [workload.key, *workload.variants]
    return found


# Checks


def check_rows(world: World) -> list[CheckRow]:
    found = []
    for name in sorted(world.objects.by_kind["AdmissionCheck"]):
        shown = render(world, "AdmissionCheck", name) or {}
        said = world.view.checks.get(name)
        status = shown.get("status", {})
        jobs = dict.fromkeys(
            w.record.job.key if w.record.job is not None else w.key for w, _ in waiting_for(world.view, name)
        )
        found.append(
            CheckRow(
                name=name,
                controller=shown.get("spec", {}).get("controllerName", ""),
                active=None if said is None else said.active,
                inactive="" if said is None or said.active else f"{said.reason}: {said.message}",
                waiting=list(jobs),
                oldest=status.get("oldestPendingSince", ""),
                object=shown,
            )
        )
    return found


# Objects


def objects_page(
    world: World, kind: str, *, namespace: str, labels: str, fields: str, start: str, limit: int
) -> Plain:
    """Return a page of the objects of a kind, as `sluice get` has them."""
    selector = Selector(labels, fields)
    items: list[Plain] = []
    last = more = ""
    for key in sorted(keys(world, kind)):
        if namespace and kind in NAMESPACED_KINDS and not key.startswith(f"{namespace}/"):
            continue
        if start and key <= start:
            continue
        if len(items) >= limit:
            more = last
            break
        found = render(world, kind, key)
        if found is not None and selector.matches(found):
            items.append(found)
            last = key
    return {"items": items, "continue_": more}


def one_object(world: World, kind: str, key: str) -> Plain:
    found = render(world, kind, key)
    if found is None:
        raise NotFoundError(kind, key, keys(world, kind))
    return found


def manifest(world: World, kind: str, key: str) -> Plain | None:
    """Return an object of configuration as it was applied."""
    stored = world.objects.get(kind, key)
    return None if stored is None else manifest_of(kind, stored.object)


# Now


def _workload_phases(world: World) -> Counter[str]:
    workloads = world.view.workloads

    def phase(key: str) -> str:
        workload = WorkloadKey(key)
        return remembered(world, "Workload", key, lambda: str(workload_phase(workloads[workload])))

    return counted(world, "Workload", phase).counts


def overview(world: World) -> Plain:
    """Return what is going on, and whether anything is wrong."""
    view = world.view
    jobs, workloads = +job_phases(world).counts, +_workload_phases(world)
    tree = QuotaTree(world)
    queues = queue_rows(world, tree)
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    examples: dict[str, str] = {}
    oldest: dict[str, tuple[WorkloadView, int, int]] = {}
    for key, place, of in waiting_keys(world, ""):
        workload = view.workloads[key]
        why = why_pending(view, workload)[0]
        reasons[why][workload.cluster_queue_name] += 1
        job = workload.record.job
        examples.setdefault(why, key if job is None else job.key)
        name = workload.cluster_queue_name
        if name not in oldest or workload.created_at < oldest[name][0].created_at:
            oldest[name] = (workload, place, of)
    rows = [
        ReasonRow(reason=why, count=sum(c.values()), queues=dict(c.most_common()), example=examples[why])
        for why, c in sorted(reasons.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    ]
    borrowers = [
        Borrower(queue=q.name, flavor=r.flavor, resource=r.resource, borrowed=r.borrowed)
        for q in queues
        for r in q.quota
        if r.borrowed.value
    ]
    warnings = _warnings(world, queues)
    longest = sorted(oldest.values(), key=lambda one: one[0].created_at)
    return {
        "sentence": _sentence(jobs, queues, borrowers, warnings),
        "jobs": dict(sorted(jobs.items())),
        "workloads": dict(sorted(workloads.items())),
        "queues": queues,
        "reasons": rows,
        "oldest": [pending_row(world, *one, world.at) for one in longest[:TOP]],
        "borrowers": borrowers[:TOP],
        "warnings": warnings,
        "agents": agents(world),
    }


def agents(world: World) -> list[Plain]:
    return [found for name in sorted(world.agents()) if (found := render(world, "Agent", name)) is not None]


def _warnings(world: World, queues: Iterable[QueueRow]) -> list[Warning_]:
    found = [
        Warning_(
            severity="warning", code="QueueInactive", text=f"{q.name} is inactive: {q.inactive}", queue=q.name
        )
        for q in queues
        if not q.active
    ]
    found += [
        Warning_(
            severity="warning",
            code="CheckInactive",
            text=f"check {c.name} is inactive: {c.inactive}",
            queue="",
        )
        for c in check_rows(world)
        if c.active is False
    ]
    for name, presence in sorted(world.agents().items()):
        if not presence.present:
            text = f"agent {name} is lost since {rfc3339(presence.since)}"
            found.append(Warning_(severity="warning", code="AgentLost", text=text, queue=""))
    return found


def _sentence(
    jobs: Counter[str], queues: list[QueueRow], borrowers: list[Borrower], warnings: list[Warning_]
) -> str:
    """Say in one sentence how the cell is."""
    waits = sum(1 for q in queues if q.pending)
    pending, running = jobs.get("Queued", 0), jobs.get("Running", 0)
    parts = [f"{_many(running, 'job')} running" if running else "nothing runs"]
    if pending:
        parts.append(f"{_many(pending, 'job')} waiting in {_many(waits, 'queue')}")
    else:
        parts.append("nobody waits")
    if borrowers:
        parts.append(f"{_many(len({b.queue for b in borrowers}), 'queue')} borrowing")
    if warnings:
        parts.append(_many(len(warnings), "warning"))
    text = ", ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def job_position(world: World, key: str) -> int | None:
    view = world.view.jobs.get(JobKey(key))
    if view is None or workload_phase(current(view)) is not WorkloadPhase.PENDING:
        return None
    return position(world.view, current(view))


def row_of(world: World, key: str) -> JobRow | None:
    return job_row(world, key)
