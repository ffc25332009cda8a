"""Description of a cell at one moment, as plain data: jobs, workloads, families, slices, checks, queues,
objects.

found = picture(fold.state)["jobs"]["default/train"]      # all of them
found = about(fold.state, "train")                         # whatever has that name
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sluice.core.config.objects import manifest_of
from sluice.core.views import JobView, WorkloadView, position
from sluice.core.views.present.job import because, current, job_status, status_fields
from sluice.core.views.present.phase import WorkloadPhase, workload_phase
from sluice.core.views.present.slices import described, is_slice
from sluice.core.views.present.unadmitted import check_states, in_order, waiting_for
from sluice.core.views.quota_totals import cohort_names
from sluice.core.workload.admission_checks import check_names
from sluice.core.workload.charges import counts
from sluice.events.codec import rfc3339
from sluice.log.cell import CellState

from .queues import amounts
from .quota import cohort_plain, flavor_plain, queue_plain

Plain = dict[str, Any]

STRIDE = 1_000
"""After so many objects it is told how far describing them has come."""


def workload_plain(cell: CellState, workload: WorkloadView) -> Plain:
    """Return what is known of a workload, but for its place in the queue, which others move."""
    record = workload.record
    found: Plain = {
        "phase": str(workload_phase(workload)),
        "queue": record.queue_name,
        "clusterQueue": workload.cluster_queue_name,
        "priority": record.priority,
        "pods": counts(workload.record.pod_sets),
    }
    if record.job is not None:
        found["job"] = record.job.key
    if workload.variant:
        found |= {"variant": workload.variant, "parent": record.parent}
    if record.replaces is not None:
        found["replaces"] = record.replaces
    if workload.holds_quota:
        found["usage"] = amounts(workload.charge)
        found["flavors"] = {assigned.name: dict(assigned.flavors) for assigned in workload.assignment or ()}
    for name, at in (
        ("reservedAt", workload.reserved_at),
        ("admittedAt", workload.admitted_at),
        ("finishedAt", workload.finished_at),
    ):
        if at is not None:
            found[name] = rfc3339(at)
    if workload.evictions:
        found["evictions"] = evictions_plain(workload)
    if states := check_states(workload):
        found["checks"] = {state.name: state.state for state in states}
    if workload.gates:
        found["gates"] = {name: "Open" if open_ else "Closed" for name, (open_, _) in workload.gates.items()}
    reason, message = because(cell.view, workload)
    return found | {k: v for k, v in (("reason", reason), ("message", message)) if v}


def job_plain(cell: CellState, job: JobView) -> Plain:
    """Return a job as its owner sees it."""
    found = {"kind": job.reference.kind, **status_fields(job_status(cell.view, job), job)}
    return {name: value for name, value in found.items() if value not in ("", [], None)}


def family_plain(cell: CellState, parent: WorkloadView) -> Plain:
    """Return a parent's variants, the most preferred first, and how its job has moved (CA8, CA10)."""
    variants: Plain = {}
    for variant in in_order(parent):
        found = workload_plain(cell, variant)
        variants[variant.variant] = {
            "phase": found["phase"],
            "active": variant.active,
            "workload": variant.key,
            "flavors": list(variant.record.allowed_flavors),
            **{k: found[k] for k in ("gates", "checks", "reason", "message") if k in found},
        }
    phase = str(workload_phase(parent))
    return {"phase": phase, "variants": variants, "migrations": migrations_plain(parent)}


def migrations_plain(parent: WorkloadView) -> list[Plain]:
    """Return when its job had to stop to move to a better variant, and where it went on (CA10)."""
    return [
        {"at": rfc3339(m.evicted_at), "reason": m.reason, "from": m.source, "to": m.target or None}
        for m in parent.migrations
        if m.is_move
    ]


def evictions_plain(workload: WorkloadView) -> dict[str, int]:
    """Return why it was evicted, and how often."""
    return {cause or why: n for (why, cause), n in workload.evictions.items()}


def check_plain(cell: CellState, name: str) -> Plain:
    """Return whether the check is performed, and how many workloads it keeps waiting (AC8)."""
    said = cell.view.checks.get(name)
    stored = cell.objects.get("AdmissionCheck", name)
    found: Plain = {"active": "Unknown" if said is None else said.active}
    if stored is not None:
        found["controller"] = stored.object.spec.controller_name  # type: ignore[union-attr]
    if said is not None and not said.active:
        found["inactive"] = f"{said.reason}: {said.message}".rstrip(": ")
    return found | {"waiting": [workload.key for workload, _ in waiting_for(cell.view, name)]}


def families(cell: CellState) -> Iterator[WorkloadView]:
    return (cell.view.workloads[key] for key in cell.view.parents)


def sliced(cell: CellState) -> Iterator[JobView]:
    """Yield the jobs that are made of slices."""
    owners = (cell.view.workloads[key].record.job for key in cell.view.slices)
    keys = dict.fromkeys(owner.key for owner in owners if owner is not None)
    return (cell.view.jobs[key] for key in keys)


def configuration_of(cell: CellState, kind: str, key: str) -> Plain | None:
    """Return one object of `configuration`; None when there is none."""
    stored = cell.objects.by_kind.get(kind, {}).get(key)
    if stored is None:
        return None
    manifest = manifest_of(kind, stored.object)
    metadata = manifest.pop("metadata")
    for name in ("apiVersion", "kind", "status"):
        manifest.pop(name, None)
    kept: Plain = {k: v for k in ("labels", "annotations") if (v := metadata.get(k))}
    if stored.terminating:
        kept["terminating"] = True
    return {**kept, **manifest}


# All of a kind


class Section(NamedTuple):
    """All of one kind: the keys that there are, whether there is one, and what is known of one that is."""

    keys: Callable[[CellState], Iterable[str]]
    has: Callable[[CellState, str], bool]
    one: Callable[[CellState, str], Any]


def _job(cell: CellState, key: str) -> Plain:
    job: JobView | None = cell.view.jobs.get(key)  # type: ignore[call-overload]
    if job is not None:
        return job_plain(cell, job)
    return {"phase": "Rejected", "message": cell.refused[key].message}  # type: ignore[index]


def _has_job(cell: CellState, key: str) -> bool:
    return key in cell.view.jobs or key in cell.refused


def _is_sliced(cell: CellState, key: str) -> bool:
    job: JobView | None = cell.view.jobs.get(key)  # type: ignore[call-overload]
    return job is not None and any(is_slice(w) for w in job.workloads.values())


def _presence(cell: CellState, key: str) -> Plain:
    said = cell.presence[key]
    found: Plain = {"present": said.present, "since": rfc3339(said.since)}
    return found | ({"message": said.message} if said.message else {})


def _of_kind(kind: str, one: Callable[[CellState, str], Plain]) -> Section:
    return Section(
        lambda c: sorted(c.objects.by_kind[kind]), lambda c, key: key in c.objects.by_kind[kind], one
    )


SECTIONS: Mapping[str, Section] = {
    "clusterQueues": Section(
        lambda c: sorted(c.view.cluster_queues),
        lambda c, key: key in c.view.cluster_queues,
        lambda c, key: queue_plain(c, c.view.cluster_queues[key]),
    ),
    "cohorts": Section(
        lambda c: sorted(cohort_names(c.view)), lambda c, key: key in cohort_names(c.view), cohort_plain
    ),
    "flavors": _of_kind("ResourceFlavor", flavor_plain),
    "jobs": Section(
        lambda c: [*sorted(c.view.jobs), *(k for k in c.refused if k not in c.view.jobs)], _has_job, _job
    ),
    "workloads": Section(
        lambda c: sorted(c.view.workloads),
        lambda c, key: key in c.view.workloads,
        lambda c, key: workload_plain(c, c.view.workloads[key]),  # type: ignore[index]
    ),
    "slices": Section(
        lambda c: [job.key for job in sliced(c)],
        _is_sliced,
        lambda c, key: described(c.view.jobs[key]),  # type: ignore[index]
    ),
    "variants": Section(
        lambda c: list(c.view.parents),
        lambda c, key: key in c.view.parents,
        lambda c, key: family_plain(c, c.view.workloads[key]),  # type: ignore[index]
    ),
    "checks": _of_kind("AdmissionCheck", check_plain),
    "presence": Section(lambda c: sorted(c.presence), lambda c, key: key in c.presence, _presence),
    "configuration": Section(
        lambda c: [f"{kind}/{key}" for kind, stored in c.objects.by_kind.items() for key in stored],
        lambda c, key: configuration_of(c, *_kind_and_name(key)) is not None,
        lambda c, key: configuration_of(c, *_kind_and_name(key)),
    ),
}
"""What there is to see, and how it is made."""


def _kind_and_name(key: str) -> tuple[str, str]:
    kind, _, name = key.partition("/")
    return kind, name


def picture(
    cell: CellState, sections: Iterable[str] = SECTIONS, tell: Callable[[int, int], None] | None = None
) -> dict[str, Plain]:
    """Return the sections asked for, each key -> object. *tell*: how many are done, of how many."""
    keys = {name: list(SECTIONS[name].keys(cell)) for name in sections}
    total, done = sum(map(len, keys.values())), 0
    found: dict[str, Plain] = {}
    for name, there in keys.items():
        one, known = SECTIONS[name].one, found.setdefault(name, {})
        for key in there:
            known[key] = one(cell, key)
            done += 1
            if tell is not None and not done % STRIDE:
                tell(done, total)
    return found


# One thing by its name

_WORDS = {
    "job": "Job",
    "workload": "Workload",
    "variant": "Workload",
    "slice": "Workload",
    "clusterqueue": "ClusterQueue",
    "cq": "ClusterQueue",
    "queue": "ClusterQueue",
    "localqueue": "LocalQueue",
    "cohort": "Cohort",
    "flavor": "ResourceFlavor",
    "resourceflavor": "ResourceFlavor",
    "check": "AdmissionCheck",
    "admissioncheck": "AdmissionCheck",
    "agent": "agent",
}
"""What people write before a name to say which kind they mean."""


def split_kind(name: str) -> tuple[str, str]:
    """Return kind and name of `queue/research`; ("", name) where no kind is written."""
    word, slash, rest = name.partition("/")
    kind = _WORDS.get(word.lower(), "") if slash else ""
    return (kind, rest) if kind else ("", name)


def about(cell: CellState, name: str) -> list[tuple[str, str, Plain]]:
    """Return (kind, key, what is known) of everything that has the name; [] of nothing.

    A name may say its kind, `cohort/company`; one without a namespace is looked for in `default`.
    """
    wanted, name = split_kind(name)
    key, agent = name if "/" in name else f"default/{name}", f"agent/{name}"
    found: list[tuple[str, str, Plain]] = []

    def add(kind: str, there: str, known: Callable[[], Plain | None]) -> None:
        if wanted in ("", kind) and (plain := known()) is not None:
            found.append((kind, there, plain))

    add("Job", key, lambda: _job_whole(cell, key))
    add("Workload", key, lambda: _workload_whole(cell, key))
    add("ClusterQueue", name, lambda: _queue_whole(cell, name))
    add("LocalQueue", key, lambda: _local_whole(cell, key))
    add("Cohort", name, lambda: cohort_plain(cell, name) if name in cohort_names(cell.view) else None)
    flavors, checks = cell.objects.by_kind["ResourceFlavor"], cell.objects.by_kind["AdmissionCheck"]
    add("ResourceFlavor", name, lambda: flavor_plain(cell, name) if name in flavors else None)
    add("AdmissionCheck", name, lambda: _check_whole(cell, name) if name in checks else None)
    add("agent", name, lambda: _presence(cell, agent) if agent in cell.presence else None)
    return found


def known_names(cell: CellState) -> list[str]:
    """Return all names that `about` finds something for."""
    view, kinds = cell.view, cell.objects.by_kind
    return [
        *view.jobs,
        *view.workloads,
        *cell.refused,
        *view.cluster_queues,
        *view.local_queues,
        *sorted(cohort_names(cell.view)),
        *kinds["ResourceFlavor"],
        *kinds["AdmissionCheck"],
    ]


def _job_whole(cell: CellState, key: str) -> Plain | None:
    job = cell.view.jobs.get(key)  # type: ignore[call-overload]
    if job is None:
        return _job(cell, key) if _has_job(cell, key) else None
    found = job_plain(cell, job)
    place = position(cell.view, current(job))
    if place is not None:
        found["queuePosition"] = place
    if any(is_slice(w) for w in job.workloads.values()):
        found["slices"] = described(job)
    found["workloads"] = {w.key: _workload_whole(cell, w.key) for w in job.workloads.values()}
    return found


def _workload_whole(cell: CellState, key: str) -> Plain | None:
    workload = cell.view.workloads.get(key)  # type: ignore[call-overload]
    if workload is None:
        return None
    found = workload_plain(cell, workload)
    place = position(cell.view, workload) if found["phase"] == WorkloadPhase.PENDING else None
    if place is not None:
        found["queuePosition"] = place
    if states := [s for s in check_states(workload) if s.state]:
        found["checks"] = {
            s.name: {"state": s.state, "attempt": workload.check_attempt}
            | ({"since": rfc3339(s.at)} if s.at is not None else {})
            | ({"message": s.message} if s.message else {})
            for s in states
        }
    if workload.parent:
        found |= family_plain(cell, workload)
    return found


def _queue_whole(cell: CellState, name: str) -> Plain | None:
    queue = cell.view.cluster_queues.get(name)
    if queue is None or queue.spec is None:
        return None
    found = queue_plain(cell, queue)
    if queue.spec.cohort_name:
        found["cohort"] = queue.spec.cohort_name
    return found | {"localQueues": sorted(queue.local_queues), "holders": list(queue.workloads)}


def _local_whole(cell: CellState, key: str) -> Plain | None:
    local = cell.view.local_queues.get(key)
    if local is None or local.spec is None:
        return None
    return {
        "clusterQueue": local.spec.cluster_queue,
        "reserving": local.reserving,
        "admitted": local.admitted,
        "pending": list(local.pending),
    }


def _check_whole(cell: CellState, name: str) -> Plain:
    queues = [
        queue.name
        for queue in cell.view.cluster_queues.values()
        if queue.spec is not None and name in check_names(queue.spec)
    ]
    return check_plain(cell, name) | {"clusterQueues": queues}


__all__ = [
    "SECTIONS",
    "about",
    "check_plain",
    "configuration_of",
    "family_plain",
    "job_plain",
    "known_names",
    "split_kind",
    "workload_plain",
]
