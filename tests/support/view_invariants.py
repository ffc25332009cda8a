"""What must hold of the view after any event of any history, so that no question about it fails (DB6)."""

from collections.abc import Iterator

from sluice.core.views.records import ClusterQueueView, FlavorResource, LocalQueueView
from sluice.core.views.state import State
from sluice.core.workload.charges import add


def violations(view: State) -> list[str]:
    """Return what is wrong with the view, [] when all is well; it takes time that grows with the view."""
    found = [text for queue in view.cluster_queues.values() for text in _cluster_queue(view, queue)]
    found += [text for local in view.local_queues.values() for text in _local_queue(view, local)]
    return [*found, *_workloads(view), *_jobs(view)]


def _cluster_queue(view: State, queue: ClusterQueueView) -> Iterator[str]:
    """Its totals are those of the live workloads that it lists."""
    reservation: dict[FlavorResource, int] = {}
    usage: dict[FlavorResource, int] = {}
    admitted = 0
    for key in queue.workloads:
        workload = view.workloads.get(key)
        if workload is None or not workload.holds_quota or workload.cluster_queue is not queue:
            yield f"{queue.name} lists {key}, which has no quota of it"
            continue
        add(reservation, workload.charge)
        if workload.admitted_at is not None:
            admitted += 1
            add(usage, workload.charge)
    for what, shown, expected in (
        ("reserves", queue.reservation, reservation),
        ("uses", queue.usage, usage),
        ("admits", {("", ""): queue.admitted}, {("", ""): admitted}),
    ):
        if {k: n for k, n in shown.items() if n} != {k: n for k, n in expected.items() if n}:
            yield f"{queue.name} {what} {shown}, of its workloads {expected}"
    if not queue.preemptors.keys() <= queue.workloads.keys():
        yield f"{queue.name} has preemptors {list(queue.preemptors)} that it does not list"
    for local in queue.local_queues.values():
        if local.cluster_queue is not queue or view.local_queues.get(local.key) is not local:
            yield f"{queue.name} lists the local queue {local.key}, which does not lead to it"
    if queue.spec is None and not (queue.workloads or queue.local_queues):
        yield f"{queue.name} is gone, and still shown"


def _local_queue(view: State, local: LocalQueueView) -> Iterator[str]:
    named = [workload for workload in view.workloads.values() if workload.local_queue is local]
    if local.users != len(named) or (local.spec is None and not named):
        yield f"{local.key} has {local.users} users, {len(named)} workloads name it"
    held = [w for w in named if w.cluster_queue is not None and w.key in w.cluster_queue.workloads]
    admitted = [w for w in held if w.admitted_at is not None]
    if (local.reserving, local.admitted) != (len(held), len(admitted)):
        yield f"{local.key} counts {local.reserving}, {local.admitted} admitted: {len(held)}, {len(admitted)}"
    waiting = {
        w.key for w in named if w.assignment is None and w.active and w.finished_at is None and not w.parent
    }
    if set(local.pending) != waiting:
        yield f"{local.key} shows {list(local.pending)} as pending, waiting are {sorted(waiting)}"
    families: dict[str, int] = {}
    for key in local.pending:
        parent = view.workloads[key].record.parent if key in view.workloads else None
        if parent is not None:
            families[parent] = families.get(parent, 0) + 1
    if local.families != families:
        yield f"{local.key} counts the families {local.families}, pending are {families}"
    for key in local.running_parents:
        workload = view.workloads.get(key)
        if workload is None or workload.local_queue is not local or workload.admitted_at is None:
            yield f"{local.key} lists the parent {key}, which does not run"
    if local.cluster_queue is not None and local.cluster_queue.local_queues.get(local.key) is not local:
        yield f"{local.key} leads to {local.cluster_queue.name}, which does not know"


def _workloads(view: State) -> Iterator[str]:
    for key, workload in view.workloads.items():
        if view.local_queues.get(workload.local_queue.key) is not workload.local_queue:
            yield f"{key} is in {workload.local_queue.key}, which is not shown"
        for name, variant in workload.variants.items():
            if view.workloads.get(name) is not variant:
                yield f"{key} has the variant {name}, which does not exist"
        parent = workload.record.parent
        if parent is not None and workload.key not in getattr(view.workloads.get(parent), "variants", ()):
            yield f"{key} is a variant of {parent}, which does not know"
        if workload.parent != (key in view.parents):
            yield f"{key} is a parent, or is listed as one, but not both"
    for kind, keys in (("parent", view.parents), ("slice", view.slices)):
        for key in keys:
            if key not in view.workloads:
                yield f"the {kind} {key} does not exist"


def _jobs(view: State) -> Iterator[str]:
    for key, job in view.jobs.items():
        if not job.workloads:
            yield f"{key} has no workloads"
        for name, workload in job.workloads.items():
            if view.workloads.get(name) is not workload:
                yield f"{key} has the workload {name}, which does not exist"
