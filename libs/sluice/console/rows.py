"""Rows of lists: queues, jobs, workloads that wait. What they say is what `sluice get` says."""

from collections.abc import Iterable, Iterator
from typing import Any

from sluice.core.views import ClusterQueueView, WorkloadView, cluster_queue_status, positions, why_pending
from sluice.core.views.present.unadmitted import check_states
from sluice.core.workload.charges import counts
from sluice.events.base import Micros, WorkloadKey
from sluice.events.codec import rfc3339
from sluice.readmodel.objects import render
from sluice.readmodel.world import World

from .answers import CheckNote, JobRow, LocalQueueRow, PendingRow, QueueRow
from .quota import QuotaTree, active_of, amount, stop_policy

Plain = dict[str, Any]


def queue_row(world: World, tree: QuotaTree, queue: ClusterQueueView) -> QueueRow:
    """Return a cluster queue as a row."""
    status = cluster_queue_status(world.view, queue)
    active, why = active_of(status)
    node = tree.tree.cluster_queues.get(queue.name)
    spec = queue.spec
    oldest = min((world.view.workloads[key].created_at for key in waiting(queue)), default=None)
    return QueueRow(
        name=queue.name,
        cohort="" if spec is None else spec.cohort_name,
        strategy="" if spec is None else str(spec.queueing_strategy or "BestEffortFIFO"),
        active=active,
        inactive=why,
        stop_policy=stop_policy(spec),
        pending=status["pendingWorkloads"],
        reserving=status["reservingWorkloads"],
        admitted=status["admittedWorkloads"],
        oldest="" if oldest is None else rfc3339(oldest),
        quota=[] if node is None else tree.rows(node),
    )


def local_queue_row(world: World, key: str) -> LocalQueueRow:
    """Return a local queue as a row."""
    namespace, _, name = key.partition("/")
    found = render(world, "LocalQueue", key) or {}
    status = found.get("status", {})
    active, why = active_of(status)
    return LocalQueueRow(
        namespace=namespace,
        name=name,
        active=active,
        inactive=why,
        stop_policy=found.get("spec", {}).get("stopPolicy") or "None",
        pending=status.get("pendingWorkloads", 0),
        reserving=status.get("reservingWorkloads", 0),
        admitted=status.get("admittedWorkloads", 0),
    )


def waiting(queue: ClusterQueueView) -> Iterator[WorkloadKey]:
    """Yield who waits in a cluster queue, in no order of places."""
    for local in queue.local_queues.values():
        yield from local.pending


def job_row(world: World, key: str) -> JobRow | None:
    """Return a job as a row, None when there is none."""
    found = render(world, "Job", key)
    return None if found is None else row_of_job(found)


def row_of_job(found: Plain) -> JobRow:
    """Return the row of a job that was rendered."""
    metadata, status = found["metadata"], found["status"]
    return JobRow(
        key=f"{metadata['namespace']}/{metadata['name']}",
        namespace=metadata["namespace"],
        name=metadata["name"],
        kind=found["kind"],
        phase=status["phase"],
        queue=status.get("queue", ""),
        cluster_queue=status.get("clusterQueue", ""),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        position=status.get("queuePosition") or 0,
        priority=status.get("priority", 0),
        priority_class=status.get("priorityClass", ""),
        pods=status.get("pods", 0),
        flavors=list(status.get("flavors", ())),
        attempts=status.get("attempts", 0),
        evictions=status.get("evictions", 0),
        executor=status.get("executor", ""),
        created=metadata.get("creationTimestamp", ""),
        started=status.get("startTime", ""),
        finished=status.get("completionTime", ""),
        waited_seconds=status.get("waitedSeconds"),
        ran_seconds=status.get("ranSeconds"),
        labels=metadata.get("labels", {}),
        workload=status.get("workload", ""),
        version=int(metadata.get("resourceVersion", 0)),
    )


def pending_row(world: World, workload: WorkloadView, place: int, of: int, at: Micros) -> PendingRow:
    """Return a workload that waits as a row."""
    reason, message = why_pending(world.view, workload)
    record = workload.record
    said = workload.pending
    since = said.at if said is not None and said.reason == reason else None
    requests: dict[str, int] = {}
    for pod_set in record.pod_sets:
        for name, value in pod_set.requests.items():
            requests[name] = requests.get(name, 0) + value * pod_set.count
    return PendingRow(
        key=record.job.key if record.job is not None else workload.key,
        workload=workload.key,
        variant=workload.variant,
        queue=record.queue_name,
        cluster_queue=workload.cluster_queue_name,
        priority=record.priority,
        position=place,
        of=of,
        reason=reason,
        message=message,
        since="" if since is None else rfc3339(since),
        created=rfc3339(workload.created_at),
        waiting_seconds=round(max(at - workload.created_at - workload.ran_us, 0) / 1e6, 3),
        pods=sum(counts(record.pod_sets).values()),
        requests={name: amount(name, value) for name, value in sorted(requests.items())},
        checks=[CheckNote(name=state.name, state=state.state) for state in check_states(workload)],
        attempts=workload.check_attempt,
        count=1,
        more=[],
    )


def in_places(world: World, queue: str) -> dict[WorkloadKey, int]:
    """Return who waits in a cluster queue, in order, with its place; families are behind their variants."""
    return dict(positions(world.view, queue))


def pending_in(world: World, queue: str, limit: int) -> list[PendingRow]:
    """Return the first that wait in a cluster queue, in order."""
    places = in_places(world, queue)
    of = sum(1 for place in places.values() if place)
    found: list[PendingRow] = []
    for key, place in places.items():
        if len(found) >= limit:
            break
        found.append(pending_row(world, world.view.workloads[key], place, of, world.at))
    return found


def first_places(world: World, queue: str, limit: int = 100) -> list[str]:
    """Return the jobs that wait first in a cluster queue, in order, each once."""
    found: dict[str, None] = {}
    for key in in_places(world, queue):
        job = world.view.workloads[key].record.job
        found[key if job is None else job.key] = None
        if len(found) >= limit:
            break
    return list(found)


def jobs_of(world: World, keys: Iterable[str]) -> list[JobRow]:
    """Return the rows of those jobs that there are."""
    return [row for key in keys if (row := job_row(world, key)) is not None]
